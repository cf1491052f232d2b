library(testthat)
library(fitnoise)

test_check("fitnoise")
