# Reading a release directory: its tables as tibbles, with labels as they are in the domain.

MIN_FORMAT <- 8 # of release.json: earlier releases have no columns of codes

#' Stop with an error of class "fitnoise_error".
refuse <- function(...) {
  stop(structure(
    class = c("fitnoise_error", "error", "condition"),
    list(message = paste0(...), call = NULL)
  ))
}

#' Read a release; see man/read_release.Rd.
read_release <- function(path, covariances = NULL) {
  file <- file.path(path, "release.json")
  if (!file.exists(file)) {
    refuse("There is no release.json in '", path, "'. Give the directory of a release. Nothing was read.")
  }
  description <- read_json(file)
  format <- description$fitnoise_release
  if (is.null(format) || format < MIN_FORMAT) {
    refuse(
      "The release has format ", format, ". This package reads format ", MIN_FORMAT,
      " and later. Write the release again with a newer fitnoise. Nothing was read."
    )
  }
  files <- list.files(file.path(path, "tables"), "\\.csv$", full.names = TRUE)
  tables <- lapply(files, read_table, domain = description$spec$domain)
  names(tables) <- sub("\\.csv$", "", basename(files))
  long <- setdiff(sub("\\.parquet$", "", list.files(file.path(path, "tables"), "\\.parquet$")), names(tables))
  if (length(long)) {
    warning(
      "Tables with 1,048,576 rows or more have no CSV file, and were not read: ", paste(long, collapse = ", "),
      ". Read their Parquet files, or write a CSV file with the command `fitnoise tables`.",
      call. = FALSE
    )
  }
  cache <- new.env(parent = emptyenv())
  if (!is.null(covariances)) {
    cache$covariances <- read_covariances(covariances, description$plan)
  }
  structure(
    class = "fitnoise_release",
    list(path = path, title = description$title, tables = tables, description = description, cache = cache)
  )
}

read_json <- function(file) fromJSON(file, simplifyVector = FALSE)

#' Read a CSV file of texts; fitnoise puts an apostrophe before texts that a spreadsheet would run.
read_texts <- function(file) {
  columns <- read.csv(
    file,
    colClasses = "character", check.names = FALSE, na.strings = character(), encoding = "UTF-8"
  )
  columns[] <- lapply(columns, function(x) sub("^'", "", x))
  names(columns) <- sub("^'", "", names(columns))
  columns
}

#' Read a table: numbers as doubles, labels and codes as texts, except where they are declared as whole numbers.
read_table <- function(file, domain) {
  columns <- read_texts(file)
  numbers <- c(
    "value", "std_error", "moe", "low", "high", "biased_value", "simulated_rmse", "unbiased_value"
  )
  for (name in names(columns)) {
    x <- columns[[name]]
    if (name %in% numbers || is_end(name, domain)) {
      columns[[name]] <- suppressWarnings(as.numeric(x)) # an open end of a bin is an empty field
    } else if (has_integers(name, domain) && all(grepl("^(0|-?[1-9][0-9]*)$", x))) {
      whole <- as.numeric(x)
      columns[[name]] <- if (all(abs(whole) < 2^31)) as.integer(x) else whole
    }
  }
  as_tibble(columns)
}

is_end <- function(name, domain) {
  attribute <- domain[[sub("_(from|to)$", "", name)]]
  is.null(domain[[name]]) && identical(attribute$type, "binned")
}

#' Return TRUE if the values of a column are declared as whole numbers, and not as texts of digits.
has_integers <- function(name, domain) {
  attribute <- domain[[name]]
  is_code <- is.null(attribute)
  if (is_code) {
    level <- level_codes(name, domain)
    if (!is.null(level)) {
      return(is.numeric(level))
    }
    attribute <- domain[[sub("_code$", "", name)]]
  }
  if (is.null(attribute)) {
    return(FALSE)
  }
  if (identical(attribute$type, "ordered")) {
    return(!is_code)
  }
  is_shown <- is_code || is.null(attribute$labels)
  is_shown && length(attribute$codes) > 0 && is.numeric(attribute$codes[[1]])
}

#' Return the code of the first place of a level, or NULL if no attribute has such a level.
level_codes <- function(name, domain) {
  for (attribute in domain) {
    depth <- match(name, unlist(attribute$levels))
    if (identical(attribute$type, "hierarchy") && !is.na(depth)) {
      # places without rows have codes that fitnoise makes, which are texts
      return(if (is.null(attribute$places)) "" else attribute$places[[1]][[depth]])
    }
  }
  NULL
}

#' Return the name of a table's file without its ending, from that name or the name of the table.
table_file <- function(release, table) {
  if (!is.character(table) || length(table) != 1) {
    refuse("Name one table, such as \"", names(release$tables)[1], "\". Nothing was computed.")
  }
  candidates <- c(table, gsub("^_+|_+$", "", gsub("(*UCP)[\\W_]+", "_", tolower(table), perl = TRUE)))
  found <- candidates[candidates %in% names(release$tables)]
  if (length(found) == 0) {
    refuse(
      "The release has no table \"", table, "\". Choose from ",
      paste0("\"", names(release$tables), "\"", collapse = ", "), ". Nothing was computed."
    )
  }
  found[1]
}

print.fitnoise_release <- function(x, ...) {
  cat("<fitnoise release>", x$title, "\n")
  for (name in names(x$tables)) {
    cat("  ", name, ": ", nrow(x$tables[[name]]), " numbers\n", sep = "")
  }
  cat("  cost: rho =", format(x$description$charge$rho_decimal, digits = 6), "\n")
  invisible(x)
}
