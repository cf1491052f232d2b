# The command line of fitnoise, for all that needs the plan.

#' Run the command and return its standard output; its error becomes an error of class "fitnoise_error".
run_fitnoise <- function(arguments, allowed = 0) {
  command <- getOption("fitnoise.command", Sys.getenv("FITNOISE", "fitnoise"))
  if (!nzchar(Sys.which(command))) {
    refuse(
      "The command \"", command, "\" is not there. Install fitnoise, or name the command: ",
      "options(fitnoise.command = \"/path/to/fitnoise\"). Nothing was computed."
    )
  }
  files <- c(tempfile("out"), tempfile("err"))
  on.exit(unlink(files))
  status <- system2(command, shQuote(arguments), stdout = files[1], stderr = files[2])
  if (!status %in% allowed) {
    lines <- readLines(files[2], warn = FALSE, encoding = "UTF-8")
    start <- grep("^\\{\"event\": \"error\"", lines) # after lines of progress
    refuse(if (length(start)) fromJSON(lines[start[1]])$error$message else paste(lines, collapse = "\n"))
  }
  paste(readLines(files[1], warn = FALSE, encoding = "UTF-8"), collapse = "\n")
}

#' Compute an expression; see man/ask.Rd.
ask <- function(release, expression, by = NULL, simultaneous = FALSE) {
  arguments <- c("ask", release$path, expression, if (length(by)) rbind("--by", by), if (simultaneous) "--simultaneous")
  answer <- fromJSON(run_fitnoise(c(arguments, "--json")))
  structure(as_tibble(answer$rows), confidence = answer$confidence, records = answer$records)
}

#' Recompute every claim of a release; see man/verify.Rd.
verify <- function(release, ledger = NULL) {
  path <- if (inherits(release, "fitnoise_release")) release$path else release
  arguments <- c("verify", path, if (!is.null(ledger)) c("--ledger", ledger), "--json")
  answer <- fromJSON(run_fitnoise(arguments, allowed = c(0, 8)), simplifyVector = FALSE)
  if (is.null(answer$checks)) {
    refuse("The command did not verify '", path, "'.")
  }
  text <- function(x) if (is.null(x$text)) "" else x$text
  checks <- tibble(
    holds = vapply(answer$checks, function(x) isTRUE(x$holds), TRUE),
    claim = vapply(answer$checks, function(x) text(x$claim), ""),
    finding = vapply(answer$checks, function(x) text(x$finding), "")
  )
  structure(class = "fitnoise_verification", list(ok = isTRUE(answer$ok), checks = checks))
}

print.fitnoise_verification <- function(x, ...) {
  cat(paste0(ifelse(x$checks$holds, "ok     ", "FAILS  "), x$checks$claim), sep = "\n")
  invisible(x)
}
