(SELECT source.`age` AS v0, source.`id` AS p FROM `census`.`the `` people` source WHERE LEFT(CAST(CONVERT(source.`sex` USING utf8mb4) AS BINARY), 4) IN (X'66', X'c3a927')
AND LEFT(CAST(CONVERT(RTRIM(source.`state`) USING utf8mb4) AS BINARY), 2) IN (X'61')
AND source.`year` >= 2020
AND source.`year` < 2025
AND CAST(source.`income` AS DOUBLE) >= CAST(0.5000000000000001 AS DOUBLE)
AND CAST(source.`income` AS DOUBLE) <= CAST(1.7976931348623157e+308 AS DOUBLE)
AND CAST(source.`wealth` AS DOUBLE) >= CAST(-1.7976931348623157e+308 AS DOUBLE)
AND CAST(source.`wealth` AS DOUBLE) < CAST(1000000.0000000001 AS DOUBLE)
AND CASE source.`owner` WHEN 1 THEN 1 WHEN 0 THEN 0 END IN (1)
AND source.`size` IN (-7, 1)
AND CAST(source.`far` AS DOUBLE) >= CAST(-1.7976931348623157e+308 AS DOUBLE)
AND CAST(source.`far` AS DOUBLE) < CAST(1e+300 AS DOUBLE))
