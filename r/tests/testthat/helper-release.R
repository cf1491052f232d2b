# A release that the tests make themselves with the command line of fitnoise. Without the command they are skipped.

command <- getOption("fitnoise.command", Sys.getenv("FITNOISE", "fitnoise"))

skip_without_command <- function() {
  skip_if_not(nzchar(Sys.which(command)), paste("the command", command, "is not there"))
}

run <- function(...) {
  status <- system2(command, shQuote(c(...)), stdout = FALSE, stderr = FALSE)
  if (status != 0) stop("fitnoise ", paste(c(...), collapse = " "), " ended with status ", status)
}

SPEC <- '
title = "People, 2025"
data.source = "people-2025"
%s

[domain.region]
type = "categorical"
codes = ["01", "02", "03"]
labels = ["North", "=South, old", "Isles"]

[domain.sex]
type = "categorical"
codes = [1, 2]
labels = ["f", "m"]

[domain.age]
type = "ordered"
low = 0
high = 9

[domain.income]
type = "binned"
cuts = [0, 1000.5]

[domain.pay]
type = "amount"
low = 0
high = 10

[[tables]]
attributes = ["region", "sex"]
margin = 20
'

FURTHER <- '
[[tables]]
attributes = ["sex"]
cumulative = "age"
margin = 30

[[tables]]
attributes = ["income", "region"]
margin = 40

[[tables]]
attributes = ["region"]
sum = "pay"
margin = 300

[[tables]]
attributes = ["sex"]
mean = "pay"
margin = 1
reference = 500
'

made <- new.env()

# Make a release once: "gaussian" with all tables, or "laplace" with one.
release_folder <- function(kind = "gaussian") {
  if (is.null(made[[kind]])) {
    folder <- tempfile(kind)
    dir.create(folder)
    place <- function(name) file.path(folder, name)
    privacy <- if (kind == "laplace") 'privacy.definition = "pure"' else ""
    writeLines(paste0(sprintf(SPEC, privacy), if (kind == "gaussian") FURTHER), place("spec.toml"))
    people <- expand.grid(region = c("01", "02", "03"), sex = 1:2, age = 0:9, income = c(-5, 500, 2000), pay = c(0, 7))
    write.csv(people[rep(seq_len(nrow(people)), each = 4), ], place("people.csv"), row.names = FALSE)
    run("plan", place("spec.toml"), "-o", place("plan.json"))
    run("release", place("plan.json"), place("people.csv"), "--ledger", place("budget.sqlite"), "-o", place("release"))
    assign(kind, place("release"), envir = made)
  }
  made[[kind]]
}
