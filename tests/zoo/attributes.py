"""The kinds of attributes, with values of the data in each of their cells and outside."""

import calendar
import datetime
import math
import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd

import fitnoise as fn
from fitnoise.kernel.codings import Range
from fitnoise.request.attributes import Attribute
from records import (
    DECIMAL,
    QUOTED,
    UGLY,
    Sample,
)
from refused import SECRET
from zoo.workloads import UNEVEN


@dataclass(frozen=True)
class Months(Attribute):
    """A kind of attribute that no engine has heard of: it is coded like whole numbers."""

    kind = "months"
    column = None
    ordered, has_sequence, is_numeric = True, True, False
    coding = Range(1, 12)
    own_values = tuple(calendar.month_name)[1:]

    def declared(self):
        return {}

    def own_position(self, value):
        return self.own_values.index(value)

    def own_examples(self, cell, class_cell):
        return (1 + cell,)


NAN, NEVER = math.nan, (None, math.nan, math.inf, -math.inf)

NO_NUMBER = [
    *NEVER, "", " ", "one", "true", "nan", "inf", "-Infinity", "1 0", "1,5", "0x1", "1e", "--1", "1_", "_1", "1__0",
    "1_0", "1_000", "-0_3", "1e1_0", "1._0", "+-1", "+-3", "-+1", "1e+-3", "1\u0662",
    "\xa01", "\u0661", "1e400", "1" * 400, True, b"1", [1], np.array([1]), object(), 1j, datetime.date(2020, 1, 1),
    np.datetime64("2020"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), 10**400, 10**5000,
    Fraction(10**400),
]  # fmt: skip

LONG = [f"code {i}" for i in range(100)]

ATTRIBUTES = {
    "texts": Sample(
        fn.Categorical(["f", "m", QUOTED], column=UGLY),
        "string",
        [["f"], ["m"], [QUOTED]],
        [None, "F", " f", "f ", "", SECRET, b"f", "\udc80", ["f"], object(), pd.NA],
    ),
    "texts that look like others": Sample(
        fn.Categorical(["1", "a", "A", " a", "\u00e9", "e\u0301", "NULL", "nan", "true", "1.5", "2020-01-01"]),
        "string",
        [["1", 1, np.int8(1), Decimal(1)], ["a"], ["A"], [" a"], ["\u00e9"], ["e\u0301"], ["NULL"], ["nan"],
         ["true", True, np.True_], ["1.5", 1.5, Decimal("1.5"), Fraction(3, 2), np.float32(1.5)], ["2020-01-01"]],
        [None, "01", "1.0", 1.0, "null", "NaN", NAN, Decimal("NaN"), False, datetime.date(2020, 1, 1), b"a", ["a"]],
    ),
    "empty text": Sample(fn.Categorical(["a", ""]), "string", [["a"], [""]], [None, " ", "A"]),
    "many texts": Sample(fn.Categorical(LONG), "string", [[c] for c in LONG], [None, "", "code 100", "Code 1"]),
    "texts of whole numbers": Sample(
        fn.Categorical(["1", "-3", "01", "9007199254740993"]),
        "int64",
        [["1", 1], ["-3", -3, np.int64(-3)], ["01"], [2**53 + 1, "9007199254740993"]],
        [None, 0, 3, 2**53, 2**53 + 2, "+1", " 1", 1.0, -3.0, True],
    ),
    "whole numbers": Sample(
        fn.Categorical({17: "west", 1: "north", -3: "south", 0: "sea"}),
        "int16",
        [[17, 17.0, "17"], [1, 1.0, "1", "01", "1.0", " 1 ", "\t1\v", "1e0", "+1", Decimal("1.00"),
          np.int8(1), np.float32(1), "0.1e1", "10E-1"],
         [-3, "-3.", "-3.00"], [0, 0.0, -0.0, "-0", ".0", "1e-400"]],
        [*NO_NUMBER, 2, 3, -17, 1.5, "1.5", "1.0000001", "west"],
    ),
    "whole numbers among fractions": Sample(
        fn.Categorical([20, 0, -1]), "double", [[20.0], [0.0, -0.0], [-1.0]], [*NEVER, 19.999, 20.5, 1e300]
    ),
    "many whole numbers": Sample(
        fn.Categorical(range(-50, 50)), "int64", [[c, str(c)] for c in range(-50, 50)], [None, 50, -51, 2**62, "a", 0.5]
    ),
    "truth": Sample(
        fn.Categorical([True, False], column="OWNER"),
        "bool",
        [[True, np.True_, "true", "TRUE", "t", "Yes", "y", "1", " true\t", 1],
         [False, np.False_, "f", "False", "no", "N", "0", 0]],
        [None, "", "on", "2", "1.0", 1.0, "null", "wahr", "\xa0true", "truefalse", NAN, b"true", pd.NA, -1],
    ),
    "only yes": Sample(fn.Categorical({True: "yes"}), "bool", [[True, "yes", "1"]], [None, False, "0", "oui"]),
    "range": Sample(
        fn.Ordered(-1, 3),
        "int64",
        [[-1, "-1", -1.0], [0, -0.0, "-0", "0e9"], [1, "01"], [2, Decimal("2.0")], [3, "3.", np.float32(3)]],
        [*NO_NUMBER, -2, 4, 2**53 + 1, -(2**62), 0.5, "0.5"],
    ),
    "clipped": Sample(
        fn.Ordered(0, 5, clip=True),
        "double",
        [[0.0, -4.0, -1e300, "-7", -(2**62)], [1.0], [2.0], [3.0], [4.0],
         [5.0, 6.0, 2.0**53 + 2, 1e300, "99", 10**300]],
        [*NO_NUMBER, 3.5, -0.5, 5.0000001, "5.5"],
    ),
    "edge of exact numbers": Sample(
        fn.Ordered(2**53 - 2, 2**53 - 1),
        "int64",
        [[2**53 - 2], [2**53 - 1]],
        [None, 2**53, 2**53 - 3, 2**53 + 1, 2**63 - 1],
    ),
    "other edge, clipped": Sample(
        fn.Ordered(-(2**53) + 1, -(2**53) + 2, clip=True),
        "int64",
        [[-(2**53) + 1, -(2**53), -(2**63)], [-(2**53) + 2, 0, 2**63 - 1]],
        [None, "0.5"],
    ),
    "unsigned": Sample(
        fn.Binned([2**63, 1.8e19]), "uint64", [[0, 2**63 - 513], [2**63, 2**63 - 512], [2**64 - 1]], [None]
    ),
    "decimals": Sample(
        fn.Ordered(-1, 2),
        DECIMAL,
        [[Decimal("-1.000"), Decimal("-1")], [Decimal("0.000")], [Decimal(1)], [Decimal("2.000")]],
        [None, Decimal("-1.500"), Decimal("2.001"), Decimal("1e30")],
    ),
    "bins": Sample(
        fn.Binned([-10.5, 0, 2.5, 1000]),
        "double",
        [[-1e9, -10.500001, "-1e300"], [-10.5, -10.4, "-10.5", -5e-324], [-0.0, 0.0, 2.4999, "-1e-400"],
         [2.5, 999.9, Decimal("2.50"), "0.25E1", Fraction(5, 2)], [1000.0, 1e300, 1000, 2**70]],
        NO_NUMBER,
    ),
    "bins of single precision": Sample(  # which has no 0.1, but a number a little above
        fn.Binned([0.1, 0.25, 16777217]),
        "float",
        [[0.0, 0.09], [float(np.float32(0.1)), np.float32(0.1)], [0.25, 16777216.0], [16777217.0, 16777218.0]],
        NEVER,
    ),
    "bins at the ends of numbers": Sample(
        fn.Binned([-1.7976931348623157e308, -5e-324, 0.0, 0.1, 1.7976931348623157e308]),
        "double",
        [[], [-1.7976931348623157e308, -1e-323], [-5e-324], [0.0, -0.0, 5e-324, 0.09999999999999999], [0.1, 1e308],
         [1.7976931348623157e308]],
        NEVER,
    ),
    "places": Sample(
        UNEVEN,
        "string",
        [["x1"], ["y1"], ["y2"], ["z1"], ["z2"], ["z3"]],
        [None, "", "x", "z", "X1", "x1 ", 1, b"x1"],
    ),
    "a level of places": Sample(
        fn.Domain(geo=UNEVEN)["state"], "string", [["x1"], ["y1", "y2"], ["z1", "z2", "z3"]], [None, "x", "z", "X1", 1]
    ),
    "places by numbers": Sample(
        fn.Hierarchy.regular(row=2, square=10),
        "string",
        [[f"{i}{j:02}"] for i in (1, 2) for j in range(1, 11)],
        [None, "", "1", "100", "111", "1001", " 101", 1.01, b"101"],
    ),
    "a level of places by numbers": Sample(
        fn.Domain(geo=fn.Hierarchy.regular(u=2, v=2))["u"],
        "string",
        [["11", 11, "12"], ["21", "22"]],
        [None, "1", "2", "13", "011", "11.0"],
    ),
    "a level of numbered places": Sample(
        fn.Domain(geo=fn.Hierarchy(["a", "b", "c"], [(True, 1, 30), (True, 2, 10), (False, 0, 20)]))["b"],
        "int64",
        [[30, 30.0, "30"], [10, "010"], [20]],
        [*NO_NUMBER, 1, 2, 0],
    ),
    "texts, looked up": Sample(
        fn.Categorical(
            {"w": "west", "e": "east"}, column="postcode", lookup={"2000": "w", "1000": "e", "01000": "w", QUOTED: "e"}
        ),
        "string",
        [["2000", 2000, "01000"], ["1000", 1000, QUOTED]],
        [None, "", "w", "e", "west", " 1000", "02000", 1000.0, SECRET],
    ),
    "numbers looked up, missing ones in cells": Sample(
        fn.Categorical(
            [True, False], lookup=[(1, True), (2, True), (3, False)], missing={"gone": [-9], "else": []},
            if_missing="gone", if_outside="else",
        ),
        "double",
        [[1.0, 2.0, "02"], [3.0], [-9.0, None, NAN, ""], [0.0, 4.0, 1.5, math.inf, "true", SECRET]],
        [],
    ),
    "one value": Sample(fn.Ordered(4, 4, clip=True), "int16", [[1, 4, 9]], [None, 4.5, "four"]),
    "range, missing ones in cells": Sample(
        fn.Ordered(0, 3, clip=True, missing={"not applicable": ["N"], "unknown": ["", -9]}, if_missing="unknown"),
        "double",
        [[0.0, -4.0, -8.0, "-7", -1e300], [1.0], [2.0, "2"], [3.0, 99.0, 1e300, "07"], ["N"],
         [-9.0, "-9", "-9.0", " -9 ", None, NAN, "", " ", "\t", ["N"], object(), pd.NA, b"N"]],
        [math.inf, -math.inf, "n", " N", "N ", 0.5, "0.5", -9.5, "one", "nan", "NULL", True, SECRET],
    ),
    "range, all in cells": Sample(
        fn.Ordered(-1, 3, missing={"gone": [], "else": [99]}, if_missing="gone", if_outside="else"),
        "int64",
        [[-1], [0], [1], [2], [3, "3.0"], [None, "", NAN], [99, 4, -2, 2**62, "x", "0.5", "1e400", math.inf]],
        [],
    ),
    "range, absent ones dropped": Sample(
        fn.Ordered(0, 2, if_missing="drop", if_outside="refuse"), "int16", [[0], [1], [2]], [None, "", NAN, 3, -1, "x"]
    ),
    "range, others dropped": Sample(
        fn.Ordered(0, 2, if_missing="refuse", if_outside="drop"), "float", [[0.0], [1.0], [2.0]],
        [None, "", NAN, 3.0, 0.5]
    ),
    "texts, missing ones in cells": Sample(
        fn.Categorical(
            ["f", "m"], missing={"neither": ["N", ""], "gone": [], "else": ["n"]}, if_missing="gone", if_outside="else"
        ),
        "string",
        [["f"], ["m"], ["N", ""], [None, NAN, pd.NA], ["n", "F", " f", " ", QUOTED, SECRET, True, 1.5]],
        [],
    ),
    "texts, others dropped": Sample(
        fn.Categorical(["f", " "], missing={"none": []}, if_missing="none", if_outside="drop"),
        "string",
        [["f"], [" "], [None, ""]],
        ["F", "  ", "\t", SECRET, 1],
    ),
    "texts of whole numbers, missing ones in a cell": Sample(
        fn.Categorical(["1", "-3"], missing={"none": ["-9", "x"], "gone": []}, if_missing="gone"),
        "int64",
        [["1", 1], ["-3", -3], ["-9", -9, "x"], [None, ""]],
        [0, 3, 9, "01", 1.0, -9.0, "-9.0", 2**62],
    ),
    "whole numbers, missing ones in cells": Sample(
        fn.Categorical({1: "yes", 0: "no"}, missing={"none": [9, -9, "N"], "else": []}, if_missing="none",
            if_outside="else"),
        "int16",
        [[1, "1.0"], [0, "-0"], [9, -9, "9.0", "N", None, "", NAN], [2, 8, "n", math.inf, 0.5]],
        [],
    ),
    "whole numbers among fractions, missing ones in a cell": Sample(
        fn.Categorical([20, 0], missing={"none": [-9]}, if_missing="none", if_outside="refuse"),
        "double",
        [[20.0], [0.0, -0.0], [-9.0, None, NAN]],
        [math.inf, -math.inf, 19.999, 1e300, sys.float_info.max],
    ),
    "truth, missing ones in a cell": Sample(
        fn.Categorical([True, False], missing={"none": ["9", "?"]}, if_missing="none", if_outside="drop"),
        "bool",
        [[True, "t"], [False, "0"], [None, "9", "?", "", " "]],
        ["?!", "2", " 9", -1],
    ),
    "bins, missing ones in a cell": Sample(
        fn.Binned([0, 10], missing={"none": [-9, "N"]}, if_missing="drop", if_outside="none"),
        "double",
        [[-1.0, -9.5, -8.0], [0.0, 9.5], [10.0, "1e3"], [-9.0, "-9", "N", math.inf, -math.inf, "n"]],
        [None, NAN, "", " "],
    ),
    "decimals, missing ones in a cell": Sample(
        fn.Ordered(-1, 2, missing={"none": [-9]}, if_missing="none"),
        DECIMAL,
        [[Decimal("-1.000")], [Decimal(0)], [Decimal(1)], [Decimal("2.000")],
         [Decimal("-9.000"), Decimal("NaN"), None]],
        [Decimal("0.500"), Decimal(3), Decimal("Infinity")],
    ),
    "a kind of the tests": Sample(Months(), "int16", [[m, str(m)] for m in range(1, 13)], [None, 0, 13, "May", 1.5]),
}  # fmt: skip
"""Every kind of attribute, with values of the data in each of its cells, and outside."""
