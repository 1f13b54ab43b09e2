"""Customers, guests and goods."""

from __future__ import annotations

import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Date, Number, Ordered
from utility.population.definition import (
    Above,
    Amount,
    Bands,
    Definition,
    Is,
    Values,
    flags,
    only,
    yes_no,
)
from utility.population.tables.places import REGION_OF_STATE

CHURN = {
    "account_length": Number(0, 200),
    **yes_no("international_plan", "voice_mail_plan"),
    "number_vmail_messages": Number(0, 60),
    **{
        f"total_{when}_{what}": Number(0, most)
        for when, what, most in (
            ("day", "minutes", 350),
            ("day", "calls", 200),
            ("eve", "minutes", 400),
            ("eve", "calls", 200),
            ("night", "minutes", 400),
            ("night", "calls", 200),
            ("intl", "minutes", 20),
            ("intl", "calls", 20),
        )
    },
    "number_customer_service_calls": Number(0, 10),
}

TELCO = {
    "tenure": Number(0, 72),
    "contract": only("Month-to-month", "One year", "Two year"),
    "multiple_lines": only("No", "Yes", "No phone service"),
    **{
        name: only("No", "Yes", "No internet service")
        for name in (
            "online_security",
            "online_backup",
            "device_protection",
            "tech_support",
            "streaming_tv",
            "streaming_movies",
        )
    },
    "payment_method": only(
        "Electronic check", "Mailed check", "Bank transfer (automatic)", "Credit card (automatic)"
    ),
    "monthly_charges": Number(15, 120),
    **flags("female", "partner", "dependents", "phone_service", "paperless_billing"),
}

HOTEL = {
    "lead_time": Number(0, 600, log=True),
    "stays_in_weekend_nights": Number(0, 4),
    "stays_in_week_nights": Number(0, 10),
    "adults": Number(1, 3),
    "children": Number(0, 2),
    "babies": Number(0, 1),
    "meal": Category(
        (
            "bed_and_breakfast",
            "breakfast_and_one_other_meal",
            "no_meal_package",
        )
    ),
    "country": Category(
        (
            "prt",
            "gbr",
            "esp",
            "irl",
            "fra",
            "deu",
            "cn",
            "usa",
        ),
        missing=True,
    ),
    "distribution_channel": only("ta_to", "direct", "corporate"),
    "is_repeated_guest": Boolean(),
    "booking_changes": Number(0, 10),
    "required_car_parking_spaces": Number(0, 3),
    "total_of_special_requests": Number(0, 5),
    "arrival_date": Date("2016-07-01", "2017-08-31", "day"),
    "month": Category(tuple(range(1, 13)), other=False),
    "weekend": Boolean(),
}

ARRIVAL = {
    "month": lambda frame: pd.to_datetime(frame["arrival_date"]).dt.month,
    "weekend": lambda frame: pd.to_datetime(frame["arrival_date"]).dt.day_of_week >= 4,
}

SEGMENTS = Values(
    "market_segment",
    ("online_travel_agent", "direct", "offline_travel_agent", "groups", "corporate"),
)

HOTEL_DROPPED = "agent and company are long lists; arrival_date_num and seasons repeat the date"

DELIVERY = {
    "hour": Number(11, 21),
    "distance": Number(1, 12, log=True),
    **{f"item_{item:02d}": Number(0, 3) for item in range(1, 28)},
    "late_hour": Number(0, 6),
}

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

LATE_HOUR = {"late_hour": lambda frame: (frame["hour"] - 15).clip(0, 6)}

AMES = {
    "area": Number(300, 5000, log=True),
    "MS.Zoning": Category(("RL", "RM", "FV", "RH")),
    "Lot.Frontage": Number(0, 300, log=True, missing=True),
    "Lot.Area": Number(1000, 200_000, log=True),
    "Lot.Shape": only("Reg", "IR1", "IR2", "IR3"),
    "Land.Contour": only("Lvl", "HLS", "Bnk", "Low"),
    "Lot.Config": only("Inside", "Corner", "CulDSac", "FR2", "FR3"),
    "Condition.1": Category(("Norm", "Feedr", "Artery", "RRAn", "PosN", "RRAe", "PosA")),
    "House.Style": Category(("1Story", "2Story", "1.5Fin", "SLvl", "SFoyer", "2.5Unf", "1.5Unf")),
    "Overall.Qual": Number(1, 10),
    "Overall.Cond": Number(1, 10),
    "Year.Built": Number(1870, 2010),
    "Year.Remod.Add": Number(1950, 2010),
    "Exterior.1st": Category(
        (
            "VinylSd",
            "MetalSd",
            "HdBoard",
            "Wd Sdng",
            "Plywood",
            "CemntBd",
            "BrkFace",
            "WdShing",
            "AsbShng",
            "Stucco",
        )
    ),
    "Mas.Vnr.Area": Number(0, 1600, log=True, missing=True),
    "Exter.Qual": Ordered(("Po", "Fa", "TA", "Gd", "Ex")),
    "Foundation": Category(("PConc", "CBlock", "BrkTil", "Slab", "Stone", "Wood")),
    "Bsmt.Qual": Ordered(("Po", "Fa", "TA", "Gd", "Ex"), missing=True),
    "Bsmt.Exposure": Ordered(("No", "Mn", "Av", "Gd"), missing=True),
    "BsmtFin.Type.1": Category(("GLQ", "ALQ", "BLQ", "Rec", "LwQ", "Unf"), missing=True),
    "Total.Bsmt.SF": Number(0, 4000, missing=True),
    "Heating.QC": Ordered(("Po", "Fa", "TA", "Gd", "Ex")),
    "Central.Air": Boolean("Y", "N"),
    "Full.Bath": Number(0, 4),
    "Half.Bath": Number(0, 2),
    "Bedroom.AbvGr": Number(0, 8),
    "Kitchen.Qual": Ordered(("Po", "Fa", "TA", "Gd", "Ex")),
    "TotRms.AbvGrd": Number(2, 15),
    "Fireplaces": Number(0, 4),
    "Garage.Type": Category(("Attchd", "Detchd", "BuiltIn", "Basment", "CarPort"), missing=True),
    "Garage.Finish": Ordered(("Unf", "RFn", "Fin"), missing=True),
    "Garage.Cars": Number(0, 5, missing=True),
    "Garage.Area": Number(0, 1500, missing=True),
    "Wood.Deck.SF": Number(0, 1500, log=True),
    "Open.Porch.SF": Number(0, 800, log=True),
    "Mo.Sold": Category(tuple(range(1, 13)), other=False),
    "Yr.Sold": only(2006, 2007, 2008, 2009, 2010),
}

AMES_PLACES = (
    "NAmes",
    "CollgCr",
    "OldTown",
    "Edwards",
    "Somerst",
    "NridgHt",
    "Gilbert",
    "Sawyer",
    "NWAmes",
    "SawyerW",
    "Mitchel",
    "BrkSide",
    "Crawfor",
    "IDOTRR",
    "Timber",
    "NoRidge",
    "StoneBr",
    "SWISU",
    "ClearCr",
)
AMES_DROPPED = "identifiers; areas that add up to others; rare features such as pools"

TASKS = (
    Definition(
        name="phone-churn",
        asks="Does a customer leave the phone company?",
        source="mlc-churn",
        table="modeldata/mlc_churn",
        target=Is("churn", ("yes",)),
        groups=(
            Values("international_plan", {"no": "home", "yes": "international"}),
            Values("region", ("northeast", "midwest", "south", "west")),
        ),
        columns=CHURN,
        derived={"region": lambda frame: frame["state"].map(REGION_OF_STATE)},
        dropped="charges are minutes times a price; area codes are not where states are",
    ),
    Definition(
        name="telecom-churn",
        asks="Does a customer leave the telecom company?",
        source="wa-churn",
        table="modeldata/wa_churn",
        target=Is("churn", ("Yes",)),
        groups=(
            Values("internet_service", ("Fiber optic", "DSL", "No")),
            Values("senior_citizen", {0: "under 65", 1: "senior"}),
        ),
        columns=TELCO,
        dropped="total_charges is tenure times the monthly charge",
    ),
    Definition(
        name="paperless-bills",
        asks="Does a customer take bills without paper?",
        source="wa-churn",
        table="modeldata/wa_churn",
        target=Is("paperless_billing", (1,)),
        groups=(
            Values(
                "payment_method",
                (
                    "Electronic check",
                    "Mailed check",
                    "Bank transfer (automatic)",
                    "Credit card (automatic)",
                ),
            ),
            Values("contract", ("Month-to-month", "One year", "Two year")),
        ),
        columns={
            **{
                name: kind
                for name, kind in TELCO.items()
                if name not in {"paperless_billing", "payment_method", "contract"}
            },
            "senior_citizen": Boolean(),
        },
        dropped="churn comes later; total_charges is tenure times the monthly charge",
    ),
    Definition(
        name="hotel-parking",
        asks="Does a guest need a parking space?",
        source="hotel-bookings",
        table="modeldata/hotel_rates",
        target=Above("required_car_parking_spaces", 0),
        groups=(SEGMENTS, Values("family", {False: "no children", True: "children"})),
        columns={n: k for n, k in HOTEL.items() if n != "required_car_parking_spaces"},
        derived={**ARRIVAL, "family": lambda frame: frame["children"] + frame["babies"] > 0},
        merged={
            "groups, children": "groups",
            "groups, no children": "groups",
            "corporate, children": "corporate",
            "corporate, no children": "corporate",
        },
        dropped=HOTEL_DROPPED,
    ),
    Definition(
        name="hotel-changes",
        asks="Does a guest change a booking?",
        source="hotel-bookings",
        table="modeldata/hotel_rates",
        target=Above("booking_changes", 0),
        groups=(Values("customer_type", ("transient", "transient_party", "contract", "group")),),
        columns={name: kind for name, kind in HOTEL.items() if name != "booking_changes"},
        derived=ARRIVAL,
        dropped=HOTEL_DROPPED,
    ),
    Definition(
        name="room-prices",
        asks="What does a guest pay for a night?",
        source="hotel-bookings",
        table="modeldata/hotel_rates",
        target=Amount("avg_price_per_room", 15, 430),
        groups=(
            SEGMENTS,
            Values(
                "reserved_room_type",
                {
                    "a": "a",
                    "d": "d",
                    "e": "e",
                    "f": "f to h",
                    "g": "f to h",
                    "h": "f to h",
                    "b": "b and c",
                    "c": "b and c",
                },
            ),
        ),
        columns=HOTEL,
        derived=ARRIVAL,
        dropped=f"{HOTEL_DROPPED}; historical_adr is a mean of prices",
        merged={
            "corporate, b and c": "corporate, other",
            "corporate, d": "corporate, other",
            "corporate, e": "corporate, other",
            "corporate, f to h": "corporate, other",
            "groups, b and c": "groups, other",
            "groups, d": "groups, other",
            "groups, e": "groups, other",
            "groups, f to h": "groups, other",
            "offline_travel_agent, b and c": "offline_travel_agent, large",
            "offline_travel_agent, f to h": "offline_travel_agent, large",
        },
    ),
    Definition(
        name="delivery-times",
        asks="How many minutes does a restaurant's delivery take?",
        source="deliveries",
        table="modeldata/deliveries",
        target=Amount("time_to_delivery", 10, 60),
        groups=(Bands("distance", (2.5, 3.5)), Bands("hour", (14, 17))),
        columns={**DELIVERY, "day": only(*DAYS)},
        derived=LATE_HOUR,
        dropped="rownames",
    ),
    Definition(
        name="house-prices",
        asks="What does a house in Ames cost (log)?",
        source="ames-housing",
        table="openintro/ames",
        target=Amount("price", 20_000, 700_000, log=True),
        groups=(
            Values(
                "Neighborhood",
                AMES_PLACES,
            ),
        ),
        columns={**AMES, "Bldg.Type": only("1Fam", "TwnhsE", "Duplex", "Twnhs", "2fmCon")},
        dropped=AMES_DROPPED,
    ),
)
