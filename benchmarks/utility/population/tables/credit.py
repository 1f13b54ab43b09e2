"""Credit and gifts."""

from __future__ import annotations

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number
from utility.population.definition import Amount, Bands, Definition, Is, Values, complete, only
from utility.population.tables.places import REGION_OF_STATE, STATES

CREDIT = {
    "Seniority": Number(0, 30),
    "Time": Number(6, 72),
    "Age": Number(20, 65),
    "Expenses": Number(30, 120),
    "Income": Number(30, 500, log=True, missing=True),
    "Assets": Number(0, 100_000, log=True),
    "Debt": Number(0, 30_000, log=True),
    "Amount": Number(300, 2500, log=True),
    "Price": Number(500, 4000, log=True),
    "Records": Boolean("yes", "no"),
    "Marital": Category(("married", "single", "separated", "widow", "divorced"), other=False),
    "Home": Category(("owner", "rent", "parents", "priv")),
}

YEARS = {
    **{f"emp_{years}": years for years in range(1, 10)},
    "emp_lt_1": 0,
    "emp_ge_10": 10,
}

LOAN = {
    "funded_amnt": Number(1000, 40_000),
    "term": Boolean("term_60", "term_36"),
    "verification_status": only("Not_Verified", "Source_Verified", "Verified"),
    "annual_inc": Number(15_000, 300_000, log=True),
    "years": Number(0, 10, missing=True),
    "delinq_2yrs": Number(0, 20, log=True),
    "inq_last_6mths": Number(0, 6),
    "revol_util": Number(0, 100),
    "open_il_6m": Number(0, 15),
    "open_il_12m": Number(0, 5),
    "open_il_24m": Number(0, 8),
    "total_bal_il": Number(500, 200_000, log=True),
    "all_util": Number(0, 120),
    "inq_fi": Number(0, 8),
    "inq_last_12m": Number(0, 12),
    "num_il_tl": Number(0, 40),
    "total_il_high_credit_limit": Number(1000, 200_000, log=True),
}

FULL_LOAN = {
    "emp_length": Number(0, 10, missing=True),
    "annual_income": Number(20_000, 250_000, log=True),
    "verified_income": only("Not Verified", "Source Verified", "Verified"),
    "debt_to_income": Number(0, 50),
    "delinq_2y": Number(0, 15, log=True),
    "earliest_credit_line": Number(1960, 2016),
    "inquiries_last_12m": Number(0, 30),
    "total_credit_lines": Number(0, 60),
    "open_credit_lines": Number(0, 30),
    "total_credit_limit": Number(5000, 1_000_000, log=True),
    "total_credit_utilized": Number(1000, 400_000, log=True),
    "num_historical_failed_to_pay": Number(0, 2),
    "accounts_opened_24m": Number(0, 30),
    "months_since_last_credit_inquiry": Number(0, 24, missing=True),
    "total_debit_limit": Number(0, 400_000, log=True),
    "num_open_cc_accounts": Number(0, 30),
    "num_cc_carrying_balance": Number(0, 20),
    "num_mort_accounts": Number(0, 15),
    "account_never_delinq_percent": Number(0, 100),
    "public_record_bankrupt": Number(0, 1),
    "loan_purpose": Category(
        (
            "debt_consolidation",
            "credit_card",
            "home_improvement",
            "major_purchase",
            "medical",
            "house",
            "car",
            "small_business",
            "moving",
            "vacation",
        )
    ),
    "application_type": Boolean("joint", "individual"),
    "loan_amount": Number(1000, 40_000),
    "term": only(36, 60),
}

LOAN_DROPPED = "grade, sub-grade, instalment, balance and payments follow from the rate; job titles"

TASKS = (
    Definition(
        name="bad-credit-by-job",
        asks="Does a Spanish customer fail to pay back?",
        source="spanish-credit",
        table="modeldata/credit_data",
        target=Is("Status", ("bad",)),
        groups=(Values("Job", ("fixed", "freelance", "partime", "others")),),
        columns=CREDIT,
        rows=complete("Home", "Marital", "Job", "Debt", "Assets"),
        dropped="rownames",
    ),
    Definition(
        name="bad-credit-by-home",
        asks="Does a Spanish customer fail to pay back?",
        source="spanish-credit",
        table="modeldata/credit_data",
        target=Is("Status", ("bad",)),
        groups=(
            Values("Home", ("owner", "rent", "parents", "other", "priv")),
            Values("Records", {"yes": "records", "no": "no records"}),
        ),
        columns={
            **{name: kind for name, kind in CREDIT.items() if name not in {"Home", "Records"}},
            "Job": only("fixed", "freelance", "partime", "others"),
        },
        rows=complete("Home", "Marital", "Job", "Debt", "Assets"),
        dropped="rownames",
    ),
    Definition(
        name="bad-loans",
        asks="Does a loan between people go bad?",
        source="lending-club",
        table="modeldata/lending_club",
        target=Is("Class", ("bad",)),
        groups=(
            Values("region", ("northeast", "midwest", "south", "west")),
            Values("term", ("term_36", "term_60")),
        ),
        columns=LOAN,
        derived={
            "region": lambda frame: frame["addr_state"].map(REGION_OF_STATE),
            "years": lambda frame: frame["emp_length"].map(YEARS),
        },
        dropped="int_rate and sub_grade are the lender's own prediction",
    ),
    Definition(
        name="long-loans",
        asks="Does a borrower choose five years instead of three?",
        source="lending-club",
        table="openintro/loans_full_schema",
        target=Is("term", (60,)),
        groups=(
            Values("homeownership", ("MORTGAGE", "RENT", "OWN")),
            Values("verified_income", ("Not Verified", "Source Verified", "Verified")),
        ),
        columns={n: k for n, k in FULL_LOAN.items() if n not in {"term", "verified_income"}},
        rows=complete("debt_to_income"),
        dropped=LOAN_DROPPED,
    ),
    Definition(
        name="interest-rates",
        asks="Which rate does a borrower pay?",
        source="lending-club",
        table="openintro/loans_full_schema",
        target=Amount("interest_rate", 5, 31),
        groups=(
            Values("homeownership", ("MORTGAGE", "RENT", "OWN")),
            Values("region", ("northeast", "midwest", "south", "west")),
        ),
        columns={**FULL_LOAN, "state": Category(STATES)},
        derived={"region": lambda frame: frame["state"].map(REGION_OF_STATE)},
        rows=complete("debt_to_income"),
        dropped=LOAN_DROPPED,
    ),
    Definition(
        name="charity-mail",
        asks="Does a person answer a charity's letter?",
        source="charity-mailing",
        table="wooldridge/charity",
        target=Is("respond", (1,)),
        groups=(
            Values("resplast", {0: "silent last time", 1: "answered last time"}),
            Bands("avggift", (8, 15, 30)),
        ),
        columns={
            "weekslast": Number(13, 200, log=True),
            "propresp": Number(0, 1),
            "mailsyear": Number(0, 4),
            "giftlast": Number(1, 1000, log=True),
            "avggift": Number(1, 1000, log=True),
        },
        dropped="gift is the target",
    ),
)
