# The numbers are those of `fitnoise ask`, which computes them from the noisy answers and not from the files. Values in
# CSV files have six decimals.
same <- function(found, expected) {
  found <- as.data.frame(as_tibble(found))
  for (name in intersect(names(expected), c("value", "std_error", "moe", "low", "high"))) {
    expect_equal(found[[name]], expected[[name]], tolerance = 1e-6, info = name)
  }
}

test_that("sums have the errors that fitnoise computes", {
  skip_without_command()
  release <- read_release(release_folder())
  same(estimate(release, "region by sex"), ask(release, "count()"))
  same(estimate(release, "region by sex", sex == "f"), ask(release, 'count(sex="f")'))
  same(estimate(release, "region_by_sex", sex == "f", by = "region"), ask(release, 'count(sex="f")', by = "region"))
  same(estimate(release, "region by sex", by = c("region", "sex")), ask(release, "count()", by = c("region", "sex")))
  islands <- "Isles"
  same(
    estimate(release, "region by sex", region_code == "01" | region == islands & sex_code == 1L),
    ask(release, 'count(region="01") + count(region="03", sex="f")')
  )
  same(estimate(release, "income by region", income_to <= 0), ask(release, 'count(income="under 0")'))
  same(estimate(release, "income by region", by = "region"), ask(release, "count()", by = "region"))
})

test_that("only groups with a row that meets the condition are returned", {
  skip_without_command()
  release <- read_release(release_folder())
  only <- function(found) as.character(as_tibble(found)$region)
  found <- estimate(release, "region by sex", region == "Isles", by = "region")
  same(found, ask(release, 'count(region="Isles")', by = "region"))
  expect_identical(only(found), "Isles")
  expect_identical(dim(vcov(found)), c(1L, 1L))
  expect_identical(dim(confint(found)), c(1L, 2L))
  weighted <- estimate(release, "region by sex", by = "region", weights = ifelse(region == "Isles", 2, 0))
  expect_identical(only(weighted), "Isles")
  expect_equal(as_tibble(weighted)$std_error, 2 * as_tibble(found)$std_error)
  isles <- share(release, "region by sex", region == "Isles" & sex == "f", by = "region")
  expect_identical(only(isles), "Isles")
  expect_identical(only(share(release, "region by sex", sex == "f", of = region == "Isles", by = "region")), "Isles")
  same(isles, ask(release, 'count(region="Isles", sex="f") / count(region="Isles")', by = "region"))
  expect_error(
    share(release, "region by sex", region == "Isles", of = region == "North", by = "region"), "No group",
    class = "fitnoise_error"
  )
  expect_error(estimate(release, "region by sex", weights = 0), "No group", class = "fitnoise_error")
})

test_that("cumulative counts are subtracted with weights", {
  skip_without_command()
  release <- read_release(release_folder())
  same(estimate(release, "sex by age cumulative", age == 4, by = "sex"), ask(release, "count(age=(0, 4))", by = "sex"))
  same(
    estimate(release, "sex by age cumulative", age %in% c(2, 6), weights = ifelse(age == 2, -1, 1), by = "sex"),
    ask(release, "count(age=(3, 6))", by = "sex")
  )
  expect_error(estimate(release, "sex by age cumulative", age <= 4), "overlap", class = "fitnoise_error")
  expect_error(share(release, "sex by age cumulative", age <= 4), "overlap", class = "fitnoise_error")
})

test_that("sums of amounts have their errors", {
  skip_without_command()
  release <- read_release(release_folder())
  same(estimate(release, "region by pay sum", by = "region"), ask(release, 'total("pay")', by = "region"))
  same(estimate(release, "region by pay sum"), ask(release, 'total("pay")'))
})

test_that("shares have the intervals that fitnoise computes", {
  skip_without_command()
  release <- read_release(release_folder())
  found <- share(release, "region by sex", sex == "f", by = "region")
  expected <- ask(release, 'count(sex="f") / count()', by = "region")
  same(found, expected)
  expect_identical(as_tibble(found)$is_significant, expected$is_significant)
  same(share(release, "region by sex", region == "Isles", of = sex == "m"), ask(
    release, 'count(region="03") / count(sex="m")'
  ))
  same(
    share(release, "sex by age cumulative", age == 2, of = age == 9, by = "sex"),
    ask(release, "count(age=(0, 2)) / count(age=(0, 9))", by = "sex")
  )
})

test_that("covariances of results are those of differences", {
  skip_without_command()
  release <- read_release(release_folder())
  by_sex <- estimate(release, "region by sex", by = "sex")
  difference <- ask(release, 'count(sex="f") - count(sex="m")')
  contrast <- c(1, -1)
  expect_equal(sqrt(drop(contrast %*% vcov(by_sex) %*% contrast)), difference$std_error, tolerance = 1e-9)
  interval <- confint(by_sex, level = 0.95)
  expect_equal(unname(interval[, "high"] - interval[, "low"]), 2 * as_tibble(by_sex)$moe)
  wide <- estimate(release, "region by sex", by = "sex", confidence = 0.99)
  expect_true(all(as_tibble(wide)$moe > as_tibble(by_sex)$moe))
})

test_that("results print a number with its margin", {
  skip_without_command()
  release <- read_release(release_folder())
  expect_output(print(estimate(release, "region by sex")), "\u00b1 .*\\(95 %\\)")
  expect_output(print(estimate(release, "region by sex", by = "sex")), "margins \\(95 %\\)")
  expect_output(print(share(release, "region by sex", sex == "f")), "from .* to ")
})

test_that("covariances may be files, of this plan only", {
  skip_without_command()
  folder <- tempfile()
  run("write", "covariances", release_folder(), "-o", folder)
  release <- read_release(release_folder(), covariances = folder)
  previous <- options(fitnoise.command = "no-such-command")
  on.exit(options(previous))
  expect_s3_class(estimate(release, "region by sex"), "fitnoise_estimate")
  expect_error(read_release(release_folder(), covariances = tempfile()), "no covariances.json")
  options(previous)
  expect_error(read_release(release_folder("laplace"), covariances = folder), "another plan")
})

test_that("margins under Laplace noise are left to the command", {
  skip_without_command()
  release <- read_release(release_folder("laplace"))
  found <- estimate(release, "region by sex", sex == "f")
  expected <- ask(release, 'count(sex="f")')
  expect_equal(as_tibble(found)$std_error, expected$std_error, tolerance = 1e-6)
  expect_identical(as_tibble(found)$moe, NA_real_)
  expect_output(print(found), "ask\\(\\)")
  expect_error(share(release, "region by sex", sex == "f"), "Laplace", class = "fitnoise_error")
  expect_error(confint(found), "Laplace", class = "fitnoise_error")
})

test_that("wrong arguments are refused", {
  skip_without_command()
  release <- read_release(release_folder())
  expect_error(estimate(release, "hair"), "no table", class = "fitnoise_error")
  expect_error(estimate(release, 1), "Name one table", class = "fitnoise_error")
  expect_error(estimate(list(), "hair"), "no release", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", by = "value"), "no column", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", c(TRUE, FALSE)), "one value for each row", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", value), "condition", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", region == "north"), "No row", class = "fitnoise_error")
  expect_error(share(release, "region by sex", sex == "f", of = region == "04"), "No row", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", weights = "a"), "not numbers", class = "fitnoise_error")
  expect_error(estimate(release, "region by sex", confidence = 1), "between 0 and 1", class = "fitnoise_error")
  expect_error(estimate(release, "sex by pay mean"), "means", class = "fitnoise_error")
})

test_that("intervals of ratios follow Fieller in every case", {
  solve_ratio <- fitnoise:::fieller
  bounded <- solve_ratio(50, 100, 4, 0, 9, 2, c(0, 1))
  inside <- function(r, a, b, v_aa, v_ab, v_bb, z) (a - r * b)^2 <= z^2 * (v_aa - 2 * r * v_ab + r^2 * v_bb) + 1e-9
  expect_true(inside(bounded$low, 50, 100, 4, 0, 9, 2) && inside(bounded$high, 50, 100, 4, 0, 9, 2))
  expect_false(inside(bounded$low - 1e-3, 50, 100, 4, 0, 9, 2) || inside(bounded$high + 1e-3, 50, 100, 4, 0, 9, 2))
  open <- solve_ratio(1, 1, 4, 0, 9, 2, c(-Inf, Inf))
  expect_identical(c(open$low, open$high), c(-Inf, Inf))
  expect_false(open$is_significant)
  impossible <- solve_ratio(-90, 100, 1, 0, 1, 2, c(0, 1))
  expect_identical(c(impossible$value, impossible$low, impossible$high), c(0, 0, 0))
})

test_that("names of places stay next to their codes", {
  skip_without_command()
  folder <- tempfile()
  dir.create(folder)
  place <- function(name) file.path(folder, name)
  writeLines(c("state,county,county_name", "1,01,Kent", "1,02,Kent"), place("places.csv"))
  writeLines(c(
    'data.source = "homes"', "[domain.geo]", 'type = "hierarchy"', 'levels = ["state", "county"]', 'file = "places.csv"',
    'column = "county"', "[[tables]]", 'attributes = ["county"]', "margin = 20"
  ), place("spec.toml"))
  writeLines(c("county", rep(c("01", "02"), 100)), place("homes.csv"))
  run("plan", place("spec.toml"), "-o", place("plan.json"))
  run("release", place("plan.json"), place("homes.csv"), "--ledger", place("budget.sqlite"), "-o", place("release"))
  release <- read_release(place("release"))
  found <- estimate(release, "county", by = "county")
  expect_named(as_tibble(found), c("county", "county_name", "value", "std_error", "moe"))
  same(found, ask(release, "count()", by = "county"))
  same(estimate(release, "county", county_name == "Kent"), ask(release, "count()"))
})
