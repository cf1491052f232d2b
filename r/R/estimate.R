# Sums and shares of the numbers of a table, with exact errors.

#' Return a sum of rows; see man/estimate.Rd.
estimate <- function(release, table, rows = TRUE, by = NULL, weights = NULL, confidence = NULL) {
  chosen <- selection(release, table, by)
  selected <- chosen$evaluate(substitute(rows), parent.frame())
  factors <- chosen$evaluate(substitute(weights), parent.frame())
  if (is.null(factors)) {
    check_overlaps(chosen, selected)
    factors <- 1
  }
  if (!is.numeric(factors) || anyNA(factors)) {
    refuse("The weights are not numbers. Give a number for each row of the table. Nothing was computed.")
  }
  coefficients <- selected * factors
  result <- new_sums(keep_groups(chosen, coefficients != 0), coefficients, confidence)
  structure(class = "fitnoise_estimate", result[c("labels", "value", "covariance", "confidence", "gaussian")])
}

#' Return the share of rows among others; see man/share.Rd.
share <- function(release, table, rows, of = TRUE, by = NULL, confidence = NULL) {
  chosen <- selection(release, table, by)
  part <- chosen$evaluate(substitute(rows), parent.frame())
  all <- chosen$evaluate(substitute(of), parent.frame())
  check_overlaps(chosen, part)
  check_overlaps(chosen, all)
  if (!chosen$table$gaussian) {
    refuse("The table has Laplace noise. Ask for the interval of its share with ask(). Nothing was computed.")
  }
  chosen <- keep_groups(chosen, part, all)
  top <- new_sums(chosen, part * 1, confidence)
  m <- length(top$value)
  joint <- covariance_of_sums(chosen$table, cbind(chosen$spread(part * 1), chosen$spread(all * 1)))
  bottom <- new_sums(chosen, all * 1, confidence)
  # counts are not negative, and a part of records is at most all of them
  possible <- c(if (chosen$table$counts) 0 else -Inf, if (chosen$table$counts && all(all[part])) 1 else Inf)
  interval <- fieller(
    top$value, bottom$value, joint[cbind(1:m, 1:m)], joint[cbind(1:m, m + 1:m)], joint[cbind(m + 1:m, m + 1:m)],
    qnorm((1 + top$confidence) / 2), possible
  )
  structure(class = "fitnoise_share", list(
    rows = as_tibble(cbind(top$labels, interval)), confidence = top$confidence
  ))
}

#' Return a table with the groups of its rows, and a function that evaluates an argument among its columns.
selection <- function(release, table, by) {
  if (!inherits(release, "fitnoise_release")) {
    refuse("The first argument is no release. Read one with read_release(). Nothing was computed.")
  }
  file <- table_file(release, table)
  numbers <- release$tables[[file]]
  covariances <- table_covariances(release, file)
  unknown <- setdiff(by, covariances$columns)
  if (length(unknown) > 0) {
    refuse(
      "The table has no column \"", unknown[1], "\". Break down by ",
      paste0("\"", covariances$columns, "\"", collapse = ", "), ". Nothing was computed."
    )
  }
  shown <- names(numbers)[names(numbers) %in% c(by, outer(by, c("_code", "_from", "_to", "_name"), paste0))]
  shown <- setdiff(shown, setdiff(covariances$columns, by))
  # groups by position: two values may have one label
  places <- arrayInd(seq_len(nrow(numbers)), rev(covariances$rows))[, length(covariances$rows):1, drop = FALSE]
  key <- row_key(places[, match(by, covariances$columns), drop = FALSE])
  group <- match(key, unique(key))
  n <- nrow(numbers)
  list(
    table = covariances, places = places, group = group,
    values = if ("unbiased_value" %in% names(numbers)) numbers$unbiased_value else numbers$value,
    labels = numbers[match(seq_len(max(group)), group), shown],
    spread = function(x) {
      out <- matrix(0, n, max(group))
      out[cbind(seq_len(n), group)] <- x
      out
    },
    evaluate = function(expression, frame) {
      x <- eval(expression, numbers, frame)
      if (is.null(x)) {
        return(NULL)
      }
      if (!length(x) %in% c(1, n)) {
        refuse("There is not one value for each row of the table. Nothing was computed.")
      }
      if (is.logical(x)) {
        x[is.na(x)] <- FALSE # as in subset(): an open end of a bin meets no condition
      }
      rep_len(x, n)
    }
  )
}

row_key <- function(places) {
  if (ncol(places) == 0) rep("", nrow(places)) else do.call(paste, as.data.frame(places))
}

#' Keep the groups with a row for each condition, as ask() does: the 0 of another group would look like an exact number.
keep_groups <- function(chosen, ...) {
  spread <- chosen$spread
  has_row <- Reduce(`&`, lapply(list(...), function(is_met) colSums(spread(is_met * 1)) > 0))
  if (!any(has_row)) {
    refuse("No group has rows that meet the conditions. Correct labels, codes or weights. Nothing was computed.")
  }
  chosen$labels <- chosen$labels[has_row, ]
  chosen$spread <- function(x) spread(x)[, has_row, drop = FALSE]
  chosen
}

#' Refuse a sum of rows that may count a record more than once: rows "at most", or overlapping ranges and groups.
check_overlaps <- function(chosen, selected) {
  if (!is.logical(selected)) {
    refuse("Choose rows by a condition, such as sex == \"f\". Nothing was computed.")
  }
  if (!any(selected)) {
    refuse("No row of the table meets the condition. Correct its labels or codes. Nothing was computed.")
  }
  overlapping <- chosen$table$overlaps
  if (!any(overlapping)) {
    return(invisible())
  }
  others <- row_key(cbind(chosen$group, chosen$places[, !overlapping, drop = FALSE]))
  if (anyDuplicated(others[selected])) {
    refuse(
      "Rows of \"", paste(chosen$table$columns[overlapping], collapse = "\", \""), "\" overlap. Their sum would count ",
      "records more than once. Choose one of them, or give weights. Nothing was computed."
    )
  }
}

new_sums <- function(chosen, coefficients, confidence) {
  if (is.null(confidence)) {
    confidence <- chosen$table$confidence
  }
  if (!is.numeric(confidence) || length(confidence) != 1 || !isTRUE(confidence > 0 && confidence < 1)) {
    refuse("The confidence is not a number between 0 and 1. Nothing was computed.")
  }
  weights <- chosen$spread(coefficients)
  list(
    labels = chosen$labels, value = as.vector(crossprod(weights, chosen$values)),
    covariance = covariance_of_sums(chosen$table, weights), confidence = confidence, gaussian = chosen$table$gaussian
  )
}

#' Return the ratios a/b with the ends of their intervals (Fieller 1954), cut to possible values.
fieller <- function(a, b, v_aa, v_ab, v_bb, z, possible) {
  square <- b^2 - z^2 * v_bb
  cross <- a * b - z^2 * v_ab
  rest <- a^2 - z^2 * v_aa
  discriminant <- cross^2 - square * rest
  # the root of larger size first, so that nothing cancels
  numerator <- cross + ifelse(cross < 0, -1, 1) * sqrt(pmax(discriminant, 0))
  one <- ifelse(numerator == 0, 0, numerator / square)
  other <- ifelse(numerator == 0, 0, rest / numerator)
  is_bounded <- square > 0
  is_open <- !is_bounded & (discriminant <= 0 | !is.finite(one + other))
  first <- ifelse(is_open, -Inf, pmin(one, other))
  last <- ifelse(is_open, Inf, pmax(one, other))
  inside <- is_bounded | is_open
  # outside two roots, the accepted ratios are two half-lines, and the interval covers both
  low <- ifelse(inside, pmax(first, possible[1]), ifelse(first >= possible[1], possible[1], pmax(last, possible[1])))
  high <- ifelse(inside, pmin(last, possible[2]), ifelse(last <= possible[2], possible[2], pmin(first, possible[2])))
  none <- low > high
  nearest <- ifelse(abs(a / b - possible[1]) <= abs(a / b - possible[2]), possible[1], possible[2])
  tibble(
    value = pmin(pmax(a / b, possible[1]), possible[2]), low = ifelse(none, nearest, low),
    high = ifelse(none, nearest, high), is_significant = is_bounded
  )
}

as_tibble.fitnoise_estimate <- function(x, ...) {
  std_error <- sqrt(pmax(diag(x$covariance), 0))
  # a margin from normal quantiles would be wrong for Laplace noise
  z <- if (x$gaussian) qnorm((1 + x$confidence) / 2) else NA_real_
  as_tibble(cbind(x$labels, tibble(value = x$value, std_error = std_error, moe = z * std_error)))
}

as_tibble.fitnoise_share <- function(x, ...) x$rows

vcov.fitnoise_estimate <- function(object, ...) object$covariance

confint.fitnoise_estimate <- function(object, parm, level = object$confidence, ...) {
  if (!object$gaussian) {
    refuse("The table has Laplace noise. Ask for the interval with ask(). Nothing was computed.")
  }
  width <- qnorm((1 + level) / 2) * sqrt(pmax(diag(object$covariance), 0))
  cbind(low = object$value - width, high = object$value + width)
}

print.fitnoise_estimate <- function(x, ...) {
  rows <- as_tibble(x)
  if (nrow(rows) == 1) {
    margin <- if (x$gaussian) format(rows$moe, digits = 3, big.mark = ",") else "? (Laplace noise: see ask())"
    cat(format(round(rows$value, 1), big.mark = ","), "\u00b1", margin, at(x$confidence), "\n")
  } else {
    print(rows, ...)
    cat("margins", at(x$confidence), "\n")
  }
  invisible(x)
}

print.fitnoise_share <- function(x, ...) {
  if (nrow(x$rows) == 1) {
    cat(format(x$rows$value, digits = 4), "from", format(x$rows$low, digits = 4), "to", format(x$rows$high, digits = 4),
        at(x$confidence), "\n")
  } else {
    print(x$rows, ...)
    cat("each interval", at(x$confidence), "\n")
  }
  invisible(x)
}

at <- function(confidence) paste0("(", format(100 * confidence), " %)")
