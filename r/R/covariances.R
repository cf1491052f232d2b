# Covariances of the numbers of a table, from the files of `fitnoise write covariances`.
#
# Of the columns of a table some are by agreement: a covariance depends only on whether two rows agree there. Let C_T be
# the covariances, by the other columns, of rows that agree in exactly the columns T. With D_S the alternating sum of
# C_T over T in S, C_T is the sum of D_S over S in T. So the covariance of two sums is the sum over S of f' D_S g, for
# coefficients that are first added up over the columns by agreement outside S. No pair of rows is ever listed.

COVARIANCES_FORMAT <- 1

#' Read covariances.json of a folder, for the plan of a release.
read_covariances <- function(folder, plan) {
  file <- file.path(folder, "covariances.json")
  if (!file.exists(file)) {
    refuse(
      "There is no covariances.json in '", folder, "'. Make the folder: fitnoise write covariances RELEASE -o FOLDER. ",
      "Nothing was computed."
    )
  }
  document <- read_json(file)
  if (!identical(as.numeric(document$fitnoise_covariances), COVARIANCES_FORMAT)) {
    refuse("The covariances have a format that this package does not read. Nothing was computed.")
  }
  if (!identical(document$plan, plan)) {
    refuse("The covariances in '", folder, "' are of another plan. Write those of this release. Nothing was computed.")
  }
  list(folder = folder, document = document)
}

#' Return the covariances of a release; without a folder the command line writes them, once for each session.
covariances_of <- function(release) {
  if (is.null(release$cache$covariances)) {
    folder <- tempfile("covariances")
    run_fitnoise(c("write", "covariances", release$path, "-o", folder))
    release$cache$covariances <- read_covariances(folder, release$description$plan)
  }
  release$cache$covariances
}

#' Return the columns of a table, and for each set of columns by agreement the matrix D_S.
table_covariances <- function(release, file) {
  found <- release$cache[[paste0("table ", file)]]
  if (is.null(found)) {
    covariances <- covariances_of(release)
    csv <- paste0(file, "-covariances.csv")
    entry <- Filter(function(x) identical(x$file, csv), covariances$document$tables)
    if (length(entry) == 0) {
      refuse(
        "Table \"", file, "\" has no file of covariances: it has means, or too many different covariances. ",
        "Ask for the number with ask(). Nothing was computed."
      )
    }
    found <- expand_covariances(entry[[1]], read_texts(file.path(covariances$folder, csv)))
    found$confidence <- covariances$document$confidence
    assign(paste0("table ", file), found, envir = release$cache)
  }
  found
}

expand_covariances <- function(entry, lines) {
  field <- function(name, kind) vapply(entry$columns, function(x) x[[name]], kind)
  table <- list(
    columns = field("name", ""), rows = field("rows", 0), by_agreement = field("by_agreement", TRUE),
    overlaps = field("overlaps", TRUE), counts = entry$counts, gaussian = entry$gaussian
  )
  n <- prod(table$rows[!table$by_agreement])
  matrices <- lapply(split(lines, lines$agree), function(x) {
    i <- cbind(as.integer(x$row), as.integer(x$other_row))
    out <- matrix(0, n, n)
    out[i] <- out[i[, 2:1, drop = FALSE]] <- as.numeric(x$covariance)
    out
  })
  k <- sum(table$by_agreement)
  patterns <- as.matrix(expand.grid(rep(list(0:1), k)))
  if (k == 0) {
    patterns <- matrix(0L, 1, 0)
  }
  table$sectors <- lapply(seq_len(nrow(patterns)), function(s) {
    shown <- patterns[s, ]
    inside <- which(apply(patterns, 1, function(t) all(t <= shown)))
    terms <- lapply(inside, function(t) {
      (-1)^(sum(shown) - sum(patterns[t, ])) * matrices[[match(paste(patterns[t, ], collapse = ""), names(matrices))]]
    })
    list(shown = shown == 1, matrix = Reduce(`+`, terms))
  })
  table
}

#' Return the covariances of m sums: weights has a row for each number of the table, and a column for each sum.
covariance_of_sums <- function(table, weights) {
  m <- ncol(weights)
  # the last column of a table changes fastest, and in R the first axis does
  axis <- rev(seq_along(table$rows))
  listed <- sort(axis[!table$by_agreement])
  agreeing <- axis[table$by_agreement] # in the order of the digits
  inner <- prod(table$rows[!table$by_agreement])
  spread <- array(weights, c(rev(table$rows), m))
  spread <- aperm(spread, c(listed, agreeing, length(axis) + 1))
  spread <- array(spread, c(inner, table$rows[table$by_agreement], m))
  total <- matrix(0, m, m)
  for (sector in table$sectors) {
    kept <- c(1, 1 + which(sector$shown), length(dim(spread)))
    x <- if (length(kept) == length(dim(spread))) spread else apply(spread, kept, sum)
    y <- sector$matrix %*% matrix(x, nrow = inner)
    total <- total + crossprod(matrix(x, ncol = m), matrix(y, ncol = m))
  }
  (total + t(total)) / 2
}
