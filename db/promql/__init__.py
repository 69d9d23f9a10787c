"""PromQL over samples, vectorised: a query's answer is computed for all series and steps at once."""
