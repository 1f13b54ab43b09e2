"""Votes, opinions, films and sports."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from sklearn_dpwg.preprocessing._column_kinds import Boolean, Category, Number, Ordered
from utility.population.definition import (
    Above,
    Amount,
    Bands,
    Definition,
    Is,
    Values,
    complete,
    flags,
    only,
)
from utility.population.tables.places import REGION_OF_NAME, STATE_NAMES

GENRES = (
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "IMAX",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)


def _has_genre(genre: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: ("|" + frame["genres"] + "|").str.contains(f"|{genre}|", regex=False)


MOVIE = {
    "year": Number(1900, 2016, missing=True),
    "rated": Number(1995, 2017),
    "age": Number(0, 110, log=True, missing=True),
    **flags(*(f"is {genre}" for genre in GENRES)),
}

MOVIE_DERIVED = {
    "rated": lambda frame: pd.to_datetime(frame["timestamp"], unit="s").dt.year,
    "age": lambda frame: (frame["rated"] - frame["year"]).clip(0, 110),
    **{f"is {genre}": _has_genre(genre) for genre in GENRES},
}

WORDS = (
    *("america", "thank", "obama", "hillary", "news", "apprentice", "debate", "poll", "vote"),
    *("tonight", "join", "interview", "jobs", "china", "best", "http", "@realdonaldtrump"),
)


def _says(word: str) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: frame["text"].str.lower().str.contains(word, regex=False)


TWEET = {
    **flags(*(f"says {word}" for word in WORDS)),
    "length": Number(0, 150),
    "quotes": Boolean(),
    "shouts": Number(0, 4),
    "hour": Category(tuple(range(24)), other=False),
}

TWEET_DERIVED = {
    **{f"says {word}": _says(word) for word in WORDS},
    "length": lambda frame: frame["text"].str.len(),
    "quotes": lambda frame: frame["text"].str.startswith('"'),
    "shouts": lambda frame: frame["text"].str.count("!"),
    "hour": lambda frame: pd.to_datetime(frame["created_at"]).dt.hour,
    "year": lambda frame: pd.to_datetime(frame["created_at"]).dt.year,
}

DISEASES = Values("disease", ("Measles", "Pertussis", "Hepatitis A", "Polio", "Rubella", "Mumps"))

DISEASE = {
    "year": Number(1928, 2011),
    "weeks_reporting": Number(0, 52),
    "population": Number(50_000, 40_000_000, log=True),
    "decade": Category(tuple(range(1930, 2010, 10))),
    "state": Category(
        tuple(
            "District Of Columbia" if name == "District of Columbia" else name
            for name in STATE_NAMES
        ),
        other=False,
    ),
}

DECADE = {"decade": lambda frame: frame["year"] // 10 * 10}

TEAM = {
    name: Number(low, high)
    for name, low, high in (
        ("runs_scored", 200, 1250),
        ("hits", 350, 1800),
        ("doubles", 0, 400),
        ("triples", 0, 150),
        ("homeruns", 0, 320),
        ("walks", 0, 850),
        ("opponents_runs_scored", 200, 1250),
        ("earned_run_average", 1, 7),
        ("complete_games", 0, 150),
        ("shutouts", 0, 35),
        ("saves", 0, 70),
        ("hits_allowed", 350, 2000),
        ("homeruns_allowed", 0, 320),
        ("walks_allowed", 0, 850),
        ("strikeouts_by_pitchers", 0, 1700),
        ("errors", 0, 640),
        ("double_plays", 0, 220),
        ("games_played", 50, 165),
    )
}

PITCH = {
    "StartSpeed": Number(72, 96),
    "EndSpeed": Number(68, 88),
    "HDev": Number(-10, 12),
    "VDev": Number(-18, 18),
    "HPos": Number(-25, 25),
    "VPos": Number(-10, 60),
    "PitchType": only("FF", "SL", "CU", "CH"),
    "Zone": Category(tuple(range(1, 15)), other=False),
    "Nasty": Number(0, 100),
    "Inning": Number(1, 9),
    "Outs": Ordered((0, 1, 2, 3)),
    "BatterHand": Boolean("L", "R"),
    "off_side": Number(0, 24),
    "off_height": Number(0, 36),
}

OFF = {
    "off_side": lambda frame: frame["HPos"].abs(),
    "off_height": lambda frame: (frame["VPos"] - 30).abs(),
}

TASKS = (
    Definition(
        name="chilean-plebiscite",
        asks="Does a Chilean mean to vote yes in 1988?",
        source="chile-plebiscite",
        table="carData/Chile",
        target=Is("vote", ("Y",)),
        groups=(Values("region", ("SA", "S", "C", "N", "M")),),
        columns={
            "population": Number(3000, 250_000, log=True),
            "sex": Boolean("F", "M"),
            "age": Number(18, 70, missing=True),
            "education": Ordered(("P", "S", "PS"), missing=True),
            "income": Number(2000, 200_000, log=True, missing=True),
        },
        dropped="statusquo measures the same opinion",
    ),
    Definition(
        name="safe-wells",
        asks="Does a household turn to another well?",
        source="bangladesh-wells",
        table="carData/Wells",
        target=Is("switch", ("yes",)),
        groups=(
            Values("association", {"yes": "member", "no": "no member"}),
            Bands("education", (1, 6, 10)),
        ),
        columns={
            "arsenic": Number(0.5, 10, log=True),
            "distance": Number(0, 350),
            "near": Boolean(),
            "education": Number(0, 17),
        },
        derived={"near": lambda frame: frame["distance"] < 30},
        dropped="rownames",
    ),
    Definition(
        name="liked-films",
        asks="Does a viewer give a film four stars or more?",
        source="movielens",
        table="dslabs/movielens",
        target=Above("rating", 3.9),
        groups=(
            Bands("year", (1960, 1980, 1990, 2000, 2010)),
            Values("is Drama", {True: "drama", False: "no drama"}),
        ),
        columns={name: kind for name, kind in MOVIE.items() if name != "is Drama"},
        derived=MOVIE_DERIVED,
        dropped="films and viewers are long lists",
    ),
    Definition(
        name="polls-for-clinton",
        asks="Is Clinton ahead in a poll?",
        source="polls-2016",
        table="dslabs/polls_us_election_2016",
        target=Above("lead", 0),
        groups=(
            Values(
                "grade",
                {
                    "A+": "A",
                    "A": "A",
                    "A-": "A",
                    "B+": "B",
                    "B": "B",
                    "B-": "B",
                    "C+": "C",
                    "C": "C",
                    "C-": "C and less",
                    "D": "C and less",
                },
            ),
        ),
        columns={
            "region": only("nation", "northeast", "midwest", "south", "west"),
            "samplesize": Number(100, 20_000, log=True),
            "population": Category(("lv", "rv")),
            "days": Number(0, 400),
            "pollster": Category(
                (
                    "Ipsos",
                    "Google Consumer Surveys",
                    "SurveyMonkey",
                    "YouGov",
                    "Rasmussen Reports/Pulse Opinion Research",
                    "USC Dornsife/LA Times",
                    "CVOTER International",
                )
            ),
        },
        derived={
            "region": lambda frame: frame["state"].map(REGION_OF_NAME).fillna("nation"),
            "lead": lambda frame: frame["rawpoll_clinton"] - frame["rawpoll_trump"],
            "days": lambda frame: (
                (pd.Timestamp("2016-11-08") - pd.to_datetime(frame["enddate"])).dt.days
            ),
        },
        rows=complete("samplesize"),
        dropped="adjusted shares and those of other candidates are of the same poll",
    ),
    Definition(
        name="popular-tweets",
        asks="Is a tweet by Trump sent on more than 1,000 times?",
        source="trump-tweets",
        table="dslabs/trump_tweets",
        target=Above("retweet_count", 1000),
        groups=(
            Values(
                "source",
                {
                    "Twitter Web Client": "web",
                    "Twitter for Android": "android",
                    "Twitter for iPhone": "iphone",
                    "TweetDeck": "other",
                    "Media Studio": "other",
                    "Instagram": "other",
                    "Facebook": "other",
                    "Twitter Ads": "other",
                },
            ),
            Bands("year", (2015,)),
        ),
        columns=TWEET,
        derived=TWEET_DERIVED,
        merged={"iphone, year under 2015": "iphone", "iphone, year 2015 and more": "iphone"},
        dropped="likes are of the same tweet; the text beyond a list of words",
    ),
    Definition(
        name="baseball-wins",
        asks="Which share of its games does a team win?",
        source="baseball-teams",
        table="openintro/mlb_teams",
        target=Amount("share", 0, 1),
        groups=(Bands("year", (1901, 1920, 1942, 1961, 1977, 1994)),),
        columns=TEAM,
        derived={"share": lambda frame: frame["wins"] / frame["games_played"]},
        dropped="losses and titles follow; names",
    ),
    Definition(
        name="good-seasons",
        asks="Does a team win more than it loses, by what it bats?",
        source="baseball-teams",
        table="openintro/mlb_teams",
        target=Above("share", 0.5),
        groups=(Bands("year", (1901, 1920, 1942, 1961, 1977, 1994)),),
        columns={
            name: TEAM[name]
            for name in (
                "runs_scored",
                "hits",
                "doubles",
                "triples",
                "homeruns",
                "walks",
                "games_played",
            )
        },
        derived={"share": lambda frame: frame["wins"] / frame["games_played"]},
        dropped="what opponents score; losses and titles follow; names",
    ),
    Definition(
        name="swings",
        asks="Does a batter swing at Kershaw's pitch?",
        source="kershaw-pitches",
        table="Stat2Data/Kershaw",
        target=Is("Swing", ("Yes",)),
        groups=(Values("Count", ("0-0", "0-1", "0-2", "1-1", "1-2", "2-1", "2-2", "3-1", "3-2")),),
        columns=PITCH,
        derived=OFF,
        dropped="outcome and result follow; names of batters",
    ),
    Definition(
        name="life-expectancy",
        asks="What is the life expectancy in a country and year?",
        source="gapminder",
        table="dslabs/gapminder",
        target=Amount("life_expectancy", 20, 85),
        groups=(
            Values("continent", ("Africa", "Asia", "Europe", "Americas", "Oceania")),
            Bands("year", (1980, 2000)),
        ),
        columns={
            "year": Number(1960, 2016),
            "fertility": Number(0.5, 10, missing=True),
            "population": Number(10_000, 2_000_000_000, log=True, missing=True),
            "gdp": Number(1e7, 2e13, log=True, missing=True),
        },
        dropped="infant mortality is nearly the target",
    ),
    Definition(
        name="disease-rates",
        asks="How many cases of a disease has a state a year per 100,000 (log of 1 and more)?",
        source="contagious-diseases",
        table="dslabs/us_contagious_diseases",
        target=Amount("rate", 1, 3000, log=True),
        groups=(DISEASES, Bands("year", (1966,))),
        columns=DISEASE,
        derived={**DECADE, "rate": lambda frame: 1 + 1e5 * frame["count"] / frame["population"]},
        merged={
            "Hepatitis A, year under 1966": "Hepatitis A",
            "Hepatitis A, year 1966 and more": "Hepatitis A",
            "Rubella, year under 1966": "Rubella",
            "Rubella, year 1966 and more": "Rubella",
            "Mumps, year under 1966": "Mumps",
            "Mumps, year 1966 and more": "Mumps",
        },
        rows=complete("population"),
        dropped="rownames",
    ),
)
