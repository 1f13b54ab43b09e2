"""States of the United States, and the census bureau's regions."""

from __future__ import annotations

REGIONS = {
    "northeast": ("CT", "ME", "MA", "NH", "RI", "VT", "NJ", "NY", "PA"),
    "midwest": ("IL", "IN", "MI", "OH", "WI", "IA", "KS", "MN", "MO", "NE", "ND", "SD"),
    "south": (
        *("DE", "FL", "GA", "MD", "NC", "SC", "VA", "DC", "WV"),
        *("AL", "KY", "MS", "TN", "AR", "LA", "OK", "TX"),
    ),
    "west": ("AZ", "CO", "ID", "MT", "NV", "NM", "UT", "WY", "AK", "CA", "HI", "OR", "WA"),
}
REGION_OF_STATE = {state: region for region, states in REGIONS.items() for state in states}
STATES = tuple(sorted(REGION_OF_STATE))

NAMES_OF_REGIONS = {
    "northeast": (
        *("Connecticut", "Maine", "Massachusetts", "New Hampshire", "Rhode Island", "Vermont"),
        *("New Jersey", "New York", "Pennsylvania", "Maine CD-1", "Maine CD-2"),
    ),
    "midwest": (
        *("Illinois", "Indiana", "Michigan", "Ohio", "Wisconsin", "Iowa", "Kansas", "Minnesota"),
        *("Missouri", "Nebraska", "North Dakota", "South Dakota"),
        *("Nebraska CD-1", "Nebraska CD-2", "Nebraska CD-3"),
    ),
    "south": (
        *("Delaware", "Florida", "Georgia", "Maryland", "North Carolina", "South Carolina"),
        *("Virginia", "District of Columbia", "West Virginia", "Alabama", "Kentucky"),
        *("Mississippi", "Tennessee", "Arkansas", "Louisiana", "Oklahoma", "Texas"),
    ),
    "west": (
        *("Arizona", "Colorado", "Idaho", "Montana", "Nevada", "New Mexico", "Utah", "Wyoming"),
        *("Alaska", "California", "Hawaii", "Oregon", "Washington"),
    ),
}
REGION_OF_NAME = {name: region for region, names in NAMES_OF_REGIONS.items() for name in names}

# The same by the numbers of the federal standard FIPS 5-2.
FIPS_REGIONS = {
    "northeast": (9, 23, 25, 33, 34, 36, 42, 44, 50),
    "midwest": (17, 18, 19, 20, 26, 27, 29, 31, 38, 39, 46, 55),
    "south": (1, 5, 10, 11, 12, 13, 21, 22, 24, 28, 37, 40, 45, 47, 48, 51, 54),
    "west": (2, 4, 6, 8, 15, 16, 30, 32, 35, 41, 49, 53, 56),
}
REGION_OF_FIPS = {code: region for region, codes in FIPS_REGIONS.items() for code in codes}

STATE_NAMES = (
    *("Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut"),
    *("Delaware", "District of Columbia", "Florida", "Georgia", "Hawaii", "Idaho", "Illinois"),
    *("Indiana", "Iowa", "Kansas", "Kentucky", "Louisiana", "Maine", "Maryland"),
    *("Massachusetts", "Michigan", "Minnesota", "Mississippi", "Missouri", "Montana", "Nebraska"),
    *("Nevada", "New Hampshire", "New Jersey", "New Mexico", "New York", "North Carolina"),
    *("North Dakota", "Ohio", "Oklahoma", "Oregon", "Pennsylvania", "Rhode Island"),
    *("South Carolina", "South Dakota", "Tennessee", "Texas", "Utah", "Vermont", "Virginia"),
    *("Washington", "West Virginia", "Wisconsin", "Wyoming"),
)
