(SELECT source."age" AS v0, source."id" AS p FROM "census"."the "" people" source WHERE TO_BINARY(CAST(source."sex" AS VARCHAR), 'UTF-8') IN (TO_BINARY('66', 'HEX'), TO_BINARY('c3a927', 'HEX'))
AND TO_BINARY(CAST(RTRIM(source."state") AS VARCHAR), 'UTF-8') IN (TO_BINARY('61', 'HEX'))
AND source."year" >= 2020
AND source."year" < 2025
AND CAST(source."income" AS DOUBLE) >= CAST('0.5000000000000001' AS DOUBLE)
AND CAST(source."income" AS DOUBLE) <= CAST('1.7976931348623157e+308' AS DOUBLE)
AND CAST(source."wealth" AS DOUBLE) >= CAST('-1.7976931348623157e+308' AS DOUBLE)
AND CAST(source."wealth" AS DOUBLE) < CAST('1000000.0000000001' AS DOUBLE)
AND CASE WHEN source."owner" THEN 1 WHEN NOT source."owner" THEN 0 END IN (1)
AND source."size" IN (-7, 1)
AND CAST(source."far" AS DOUBLE) >= CAST('-1.7976931348623157e+308' AS DOUBLE)
AND CAST(source."far" AS DOUBLE) < CAST('1e+300' AS DOUBLE))
