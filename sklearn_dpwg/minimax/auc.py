"""stub"""
AUCGame=None
