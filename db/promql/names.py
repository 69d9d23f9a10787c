"""The words of Prometheus 3's PromQL, and where a keyword may be a name."""

SET_OPERATORS = frozenset(("and", "or", "unless"))
OPERATORS = SET_OPERATORS | frozenset(
    ("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<=", "<", ">=", ">")
)
AGGREGATIONS = frozenset(
    {
        "sum",
        "avg",
        "count",
        "min",
        "max",
        "group",
        "stddev",
        "stdvar",
        "topk",
        "bottomk",
        "count_values",
        "quantile",
    }
)

# Every stable function, and double_exponential_smoothing, which has been there as holt_winters for long.
FUNCTIONS = frozenset(
    {
        "abs",
        "absent",
        "absent_over_time",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "avg_over_time",
        "ceil",
        "changes",
        "clamp",
        "clamp_max",
        "clamp_min",
        "cos",
        "cosh",
        "count_over_time",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "days_in_month",
        "deg",
        "delta",
        "deriv",
        "double_exponential_smoothing",
        "exp",
        "floor",
        "histogram_avg",
        "histogram_count",
        "histogram_fraction",
        "histogram_quantile",
        "histogram_stddev",
        "histogram_stdvar",
        "histogram_sum",
        "hour",
        "idelta",
        "increase",
        "irate",
        "label_join",
        "label_replace",
        "last_over_time",
        "ln",
        "log10",
        "log2",
        "max_over_time",
        "min_over_time",
        "minute",
        "month",
        "pi",
        "predict_linear",
        "present_over_time",
        "quantile_over_time",
        "rad",
        "rate",
        "resets",
        "round",
        "scalar",
        "sgn",
        "sin",
        "sinh",
        "sort",
        "sort_desc",
        "sqrt",
        "stddev_over_time",
        "stdvar_over_time",
        "sum_over_time",
        "tan",
        "tanh",
        "time",
        "timestamp",
        "vector",
        "year",
    }
)

# Prometheus has these only behind a feature flag. Metrics may have these names.
EXPERIMENTAL_KEYWORDS = frozenset(
    {"limitk", "limit_ratio", "start", "end", "step", "range", "fill", "fill_left", "fill_right"}
)
EXPERIMENTAL = EXPERIMENTAL_KEYWORDS | frozenset(
    {
        "first_over_time",
        "histogram_quantiles",
        "info",
        "integral",
        "mad_over_time",
        "max_of",
        "min_of",
        "sort_by_label",
        "sort_by_label_desc",
        "ts_of_first_over_time",
        "ts_of_last_over_time",
        "ts_of_max_over_time",
        "ts_of_min_over_time",
    }
)
EXPERIMENTAL_AGGREGATIONS = frozenset(("limitk", "limit_ratio"))
EXPERIMENTAL_MODIFIERS = frozenset(("anchored", "smoothed"))
EXPERIMENTAL_IN_DURATIONS = frozenset({"step", "range", "min", "max", "min_of", "max_of"})

KEYWORDS = frozenset({"offset", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"})
# Keywords that no metric can be named by, and the others, which no function is.
NEVER_METRICS = frozenset({"bool", "on", "ignoring", "group_left", "group_right", "atan2"})
METRIC_KEYWORDS = SET_OPERATORS | frozenset({"offset", "by", "without", "anchored", "smoothed"})
