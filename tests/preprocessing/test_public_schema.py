from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn_dpwg.preprocessing import Number, PublicSchema
@parametrize_with_checks([PublicSchema({0: Number(-100, 100)})])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
