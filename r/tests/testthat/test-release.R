test_that("tables have labels, codes and margins", {
  skip_without_command()
  release <- read_release(release_folder())
  table <- release$tables$region_by_sex
  expect_s3_class(table, "tbl_df")
  expect_named(table, c("region", "region_code", "sex", "sex_code", "value", "std_error", "moe"))
  expect_identical(table$region, rep(c("North", "=South, old", "Isles"), each = 2))
  expect_identical(table$region_code, rep(c("01", "02", "03"), each = 2))
  expect_identical(table$sex_code, rep(1:2, 3))
  expect_true(all(table$moe > 0 & table$moe <= 20))
  ages <- release$tables$sex_by_age_cumulative
  expect_identical(ages$age, rep(0:9, 2))
  bins <- release$tables$income_by_region
  expect_identical(unique(bins$income_from), c(NA, 0, 1000.5))
  expect_identical(unique(bins$income_to), c(0, 1000.5, NA))
  means <- release$tables$sex_by_pay_mean
  expect_true(all(means$low <= means$value & means$value <= means$high))
  expect_output(print(release), "region_by_sex: 6 numbers")
})

test_that("a long table without a CSV file is named", {
  skip_without_command()
  folder <- tempfile()
  dir.create(folder)
  file.copy(release_folder(), folder, recursive = TRUE)
  copy <- list.files(folder, full.names = TRUE)
  unlink(file.path(copy, "tables", "region_by_sex.csv"))
  expect_warning(release <- read_release(copy), "no CSV file, and were not read: region_by_sex\\.")
  expect_null(release$tables$region_by_sex)
})

test_that("codes are texts unless they are declared as whole numbers", {
  domain <- list(
    text = list(type = "categorical", codes = list("06", "10")),
    whole = list(type = "categorical", codes = list(6, 10), labels = list("a", "b")),
    x_code = list(type = "categorical", codes = list(1, 2)),
    age = list(type = "ordered", low = 0, high = 9),
    geo = list(type = "hierarchy", levels = list("state", "county"), places = list(list(6, "06001"), list(10, "10001"))),
    grid = list(type = "hierarchy", levels = list("row", "square"), children = list(2, 2))
  )
  read <- function(header, ...) {
    file <- tempfile()
    writeLines(c(header, ...), file)
    read_table(file, domain)
  }
  expect_identical(read("text,value", "06,1", "10,2")$text, c("06", "10"))
  expect_identical(read("whole,whole_code,value", "a,6,1", "b,10,2")$whole_code, c(6L, 10L))
  expect_identical(read("whole,whole_code,value", "a,6,1", "gone,gone,2")$whole_code, c("6", "gone"))
  expect_identical(read("x_code,value", "1,1", "2,2")$x_code, 1:2)
  expect_identical(read("age,value", "0,1", "9,2")$age, c(0L, 9L))
  expect_identical(read("state,value", "6,1", "10,2")$state, c(6L, 10L))
  expect_identical(read("state,value", "6,1", "10000000000,2")$state, c(6, 1e10))
  expect_identical(read("county,county_name,value", "06001,6,1", "10001,7,2")$county, c("06001", "10001"))
  expect_identical(read("county,county_name,value", "06001,6,1", "10001,7,2")$county_name, c("6", "7"))
  expect_identical(read("row,value", "1,1", "2,2")$row, c("1", "2"))
})

test_that("a folder that is no release is refused", {
  folder <- tempfile()
  dir.create(folder)
  expect_error(read_release(folder), "no release.json", class = "fitnoise_error")
  writeLines('{"fitnoise_release": 7}', file.path(folder, "release.json"))
  expect_error(read_release(folder), "format 7", class = "fitnoise_error")
})

test_that("a release verifies, and an altered table does not", {
  skip_without_command()
  verified <- verify(read_release(release_folder()))
  expect_true(verified$ok)
  expect_true(all(verified$checks$holds))
  folder <- tempfile()
  dir.create(folder)
  file.copy(release_folder(), folder, recursive = TRUE)
  file <- file.path(folder, "release", "tables", "region_by_sex.csv")
  lines <- readLines(file)
  writeLines(c(lines[1], sub(",f,1,", ",f,1,1", lines[2]), lines[-(1:2)]), file)
  altered <- verify(file.path(folder, "release"))
  expect_false(altered$ok)
  expect_output(print(altered), "FAILS  the CSV tables are the Parquet tables")
})

test_that("a command that is not there is named", {
  previous <- options(fitnoise.command = "no-such-command")
  on.exit(options(previous))
  expect_error(verify("release"), "no-such-command", class = "fitnoise_error")
})

test_that("an error of the command is an error here", {
  skip_without_command()
  release <- read_release(release_folder())
  sentence <- "^The release has no attribute 'hair'[.].*Nothing was estimated[.]$"
  expect_error(ask(release, "count(hair = 1)"), sentence, class = "fitnoise_error")
  expect_error(verify(release, ledger = tempfile()), "^There is no ledger .*verified[.]$", class = "fitnoise_error")
})
