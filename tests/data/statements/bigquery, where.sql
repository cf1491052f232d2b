(SELECT source.`age` AS v0, source.`id` AS p FROM `census`.`the `` people` source WHERE CAST(source.`sex` AS BYTES) IN (FROM_HEX('66'), FROM_HEX('c3a927'))
AND CAST(RTRIM(source.`state`) AS BYTES) IN (FROM_HEX('61'))
AND source.`year` >= 2020
AND source.`year` < 2025
AND CAST(source.`income` AS FLOAT64) >= CAST('0.5000000000000001' AS FLOAT64)
AND CAST(source.`income` AS FLOAT64) <= CAST('1.7976931348623157e+308' AS FLOAT64)
AND CAST(source.`wealth` AS FLOAT64) >= CAST('-1.7976931348623157e+308' AS FLOAT64)
AND CAST(source.`wealth` AS FLOAT64) < CAST('1000000.0000000001' AS FLOAT64)
AND CASE WHEN source.`owner` THEN 1 WHEN NOT source.`owner` THEN 0 END IN (1)
AND source.`size` IN (-7, 1)
AND CAST(source.`far` AS FLOAT64) >= CAST('-1.7976931348623157e+308' AS FLOAT64)
AND CAST(source.`far` AS FLOAT64) < CAST('1e+300' AS FLOAT64))
