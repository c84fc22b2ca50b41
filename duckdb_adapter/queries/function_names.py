"""DuckDB functions by what they prove: whether fewer rows give the same result."""

from __future__ import annotations

# Aggregate functions whose result does not depend on the order of rows.
AGGREGATES = {
    *("count", "count_star", "count_if", "countif", "sum", "avg", "mean", "min", "max", "median"),
    *("histogram", "approx_count_distinct", "quantile", "quantile_cont", "quantile_disc", "mad"),
    *("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "skewness"),
    *("kurtosis", "entropy", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"),
}
# Aggregate functions that collect values in the order of rows, or with DISTINCT in any order.
COLLECTING = {"list", "array_agg", "string_agg", "group_concat", "listagg"}
MAKING_ONE_VALUE = AGGREGATES | COLLECTING
# Scalar functions, which may be combined with these.
OF_VALUES = {
    *("lower", "upper", "length", "len", "strlen", "trim", "ltrim", "rtrim", "reverse", "concat"),
    *("concat_ws", "substring", "substr", "left", "right", "lpad", "rpad", "replace", "split_part"),
    *("regexp_extract", "regexp_matches", "regexp_replace", "contains", "prefix", "suffix"),
    *("starts_with", "ends_with", "position", "strpos", "instr", "format", "printf"),
    *("abs", "sign", "round", "floor", "ceil", "ceiling", "trunc", "mod", "sqrt", "ln", "log"),
    *("log2", "log10", "exp", "pow", "power", "if", "ifnull", "nullif", "greatest", "least"),
    *("year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofmonth", "dayofyear"),
    *("dayname", "monthname", "last_day", "date_trunc", "datetrunc", "date_part", "datepart"),
    *("time_bucket", "isoyear", "weekofyear", "weekday", "date_add", "date_sub", "make_date"),
    *("list_sort", "array_to_string", "list_distinct", "string_split", "str_split", "md5"),
    *("regexp_full_match", "strip_accents", "json_extract", "json_extract_string", "isnan"),
    *("to_years", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds"),
    *("strftime", "age", "date_diff", "datediff", "epoch", "epoch_ms", "hour", "minute", "second"),
}
# Functions and operators that return the same each time that they are called in a statement.
REPEATABLE = OF_VALUES | {
    *("hash", "md5", "sha256", "bit_count", "levenshtein", "jaccard", "jaro_winkler_similarity"),
    *("list_contains", "array_contains", "list_has", "list_position", "array_length", "list_value"),
    *("list_has_any", "list_has_all", "array_has_any", "array_has_all", "list_extract"),
    *("array_extract", "struct_extract", "map_extract", "cardinality", "json_array_length"),
    *("json_valid", "json_type", "json_contains", "isfinite", "isinf", "century", "decade"),
    *("yearweek", "epoch_us", "epoch_ns", "millisecond", "microsecond", "coalesce", "ascii"),
    *("unicode", "ord", "bit_length", "translate", "list_distance", "regexp_extract_all"),
    *("array_distance", "array_cosine_similarity", "array_inner_product", "now", "today"),
    *("current_date", "current_timestamp", "get_current_timestamp"),
    *("+", "-", "*", "/", "//", "%", "**", "^", "||", "&", "|", "<<", ">>", "~", "@", "->", "->>"),
    *("~~", "!~~", "~~*", "!~~*", "~~~", "^@"),
}
