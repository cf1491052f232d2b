(SELECT source.`age` AS v0, source.`id` AS p FROM `census`.`the `` people` source WHERE CAST(source.`sex` AS Nullable(String)) IN (unhex('66'), unhex('c3a927'))
AND CAST(RTRIM(source.`state`) AS Nullable(String)) IN (unhex('61'))
AND source.`year` >= 2020
AND source.`year` < 2025
AND toFloat64(source.`income`) >= toFloat64(0.5000000000000001)
AND toFloat64(source.`income`) <= toFloat64(1.7976931348623157e+308)
AND toFloat64(source.`wealth`) >= toFloat64(-1.7976931348623157e+308)
AND toFloat64(source.`wealth`) < toFloat64(1000000.0000000001)
AND CASE source.`owner` WHEN 1 THEN 1 WHEN 0 THEN 0 END IN (1)
AND source.`size` IN (-7, 1)
AND toFloat64(source.`far`) >= toFloat64(-1.7976931348623157e+308)
AND toFloat64(source.`far`) < toFloat64(1e+300))
