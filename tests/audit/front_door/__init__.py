"""Attacks on the public interface: how much do many fits with secure noise give away of a record?

A scenario fits something the way a user would, on data with a canary and on a neighbour without; an
attacker sees what was released and the guarantee that was stated. ``python -m
tests.audit.front_door`` prints what is claimed beside what was audited, and whether faults that are
planted one at a time in the whole path are caught.
"""
