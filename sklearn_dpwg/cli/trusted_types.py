"""Types that a model file may hold."""

# What a model of this package is made of, beside what skops trusts by itself: types that hold
# numbers and words and do nothing when they are loaded. tests/cli/test_models.py fits every solver
# and loss to see that the list has all of them, and nothing else.
TRUSTED_TYPES = tuple(
    f"{module}.{name}"
    for module, names in {
        "datetime": ("date", "datetime", "timedelta", "timezone"),  # bounds of dates
        "dp_accounting.dp_event": (
            "ComposedDpEvent",
            "GaussianDpEvent",
            "LaplaceDpEvent",
            "NonPrivateDpEvent",
            "SelfComposedDpEvent",
        ),
        "sklearn_dpwg.estimators.classifier": ("DPWorstGroupClassifier",),
        "sklearn_dpwg.estimators.regressor": ("DPWorstGroupRegressor",),
        "sklearn_dpwg.losses.absolute_error": ("AbsoluteError",),
        "sklearn_dpwg.losses.base": ("LossConstants",),
        "sklearn_dpwg.losses.binary_log_loss": ("BinaryLogLoss",),
        "sklearn_dpwg.losses.hinge": ("Hinge",),
        "sklearn_dpwg.losses.huber": ("Huber",),
        "sklearn_dpwg.losses.kinked_loss": ("_RoundedKink",),
        "sklearn_dpwg.losses.multinomial_log_loss": ("MultinomialLogLoss",),
        "sklearn_dpwg.losses.quantile": ("Quantile",),
        "sklearn_dpwg.losses.smoothed_hinge": ("SmoothedHinge",),
        "sklearn_dpwg.losses.squared_error": ("SquaredError",),
        "sklearn_dpwg.losses.squared_hinge": ("SquaredHinge",),
        "sklearn_dpwg.preprocessing._column_kinds": (
            "Boolean", "Category", "Date", "Number", "Ordered",
        ),
        "sklearn_dpwg.preprocessing.public_schema": ("PublicSchema",),
        "sklearn_dpwg.privacy.guarantee": ("PrivacyGuarantee",),
        "sklearn_dpwg.privacy.relation": ("Relation",),
        "sklearn_dpwg.privacy.release": ("Budget", "Release"),
        "sklearn_dpwg.privacy.sensitivity._sums": ("SumGrid",),
        "sklearn_dpwg.problem": ("Problem",),
        "sklearn_dpwg.solvers.ags.schedule": ("AGSSchedule",),
        "sklearn_dpwg.solvers.best_response.schedule": ("BestResponseSchedule",),
        "sklearn_dpwg.solvers.centring.problem": ("CentredProblem",),
        "sklearn_dpwg.solvers.exact": ("ExactSchedule",),
        "sklearn_dpwg.solvers.gda.schedule": ("GDASchedule",),
        "sklearn_dpwg.solvers.mgr.schedule": ("MGRSchedule",),
        "sklearn_dpwg.solvers.mixture": ("Calls", "MixturePlan"),
        "sklearn_dpwg.solvers.moments.schedule": ("MomentsSchedule",),
        "sklearn_dpwg.solvers.oco.schedule": ("OCOSchedule", "StrengthRule"),
        "sklearn_dpwg.solvers.online_to_batch.schedule": ("OnlineToBatchSchedule",),
        "sklearn_dpwg.solvers.online_to_batch.sensitivity": ("DifferenceSensitivity",),
        "sklearn_dpwg.solvers.phased_erm.descent_bound": ("DescentBound",),
        "sklearn_dpwg.solvers.phased_erm.schedule": ("PhasedERMSchedule",),
        "sklearn_dpwg.solvers.plan": ("Plan",),
    }.items()
    for name in names
)  # fmt: skip
