"""Programs that compute the same values look the same, however they are written; no others do."""

import pytest

from harness.mutation import canonical

_PROGRAM = """module {
  tt.func public @kernel(%x: !tt.ptr<i8> {tt.divisibility = 16 : i32}, %out: !tt.ptr<f32>, %n: i32) {
    %c = arith.constant dense<C> : tensor<8xi32>
    %m = arith.constant dense<M> : tensor<8xi32>
    %s = arith.constant dense<16> : tensor<8xi32>
    %zero = arith.constant dense<ZERO> : tensor<8xbf16>
    %zeros = arith.constant dense<0.000000e+00> : tensor<8xf32>
    %row = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<i8> -> tensor<8x!tt.ptr<i8>>
    %ps = tt.addptr %xs, %row : tensor<8x!tt.ptr<i8>>, tensor<8xi32>
    %outs = tt.splat %out : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %os = tt.addptr %outs, %row : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %ns = tt.splat %n : i32 -> tensor<8xi32>
    %low = arith.cmpi slt, %row, %ns : tensor<8xi32>
    %v = tt.load %ps : tensor<8x!tt.ptr<i8>>
    BODY
    tt.return
  }
}
"""
_STORE = "\n    tt.store %os, %f : tensor<8x!tt.ptr<f32>>"
_BITS = "%w = arith.EXT %v : tensor<8xi8> to tensor<8xi32>\n    %k = arith.muli %w, %c : tensor<8xi32>\n    "
_MASKED = (
    f"{_BITS}%b = arith.andi %k, %m : tensor<8xi32>\n    %f = arith.sitofp %b : tensor<8xi32> to tensor<8xf32>{_STORE}"
)
_SHIFTED = _MASKED.replace("arith.andi %k, %m", "arith.shrui %k, %s")
_WIDE = (
    "%h = arith.uitofp %v : tensor<8xi8> to tensor<8xbf16>\n    %e = arith.extf %h : tensor<8xbf16> to tensor<8xf32>\n"
    f"    %f = arith.select %low, %e, %zeros : tensor<8xi1>, tensor<8xf32>{_STORE}"
)
_NARROW = (
    "%h = arith.uitofp %v : tensor<8xi8> to tensor<8xbf16>\n"
    "    %e = arith.select %low, %h, %zero : tensor<8xi1>, tensor<8xbf16>\n"
    f"    %f = arith.extf %e : tensor<8xbf16> to tensor<8xf32>{_STORE}"
)
_SUM = (
    """%one = arith.constant 1 : i32
    %none = arith.constant 0 : i32
    %sum = scf.for %i = %none to %n step %one iter_args(%acc = %zeros) -> (tensor<8xf32>)  : i32 {
      %w = arith.sitofp %row : tensor<8xi32> to tensor<8xf32>
      %next = arith.addf %acc, %w : tensor<8xf32>
      scf.yield %next : tensor<8xf32>
    }
    %f = arith.addf %sum, %zeros : tensor<8xf32>"""
    + _STORE
)


def form(body, c=16, m=255, ext="extui", zero="0.000000e+00"):
    text = _PROGRAM.replace("BODY", body).replace("dense<C>", f"dense<{c}>").replace("dense<M>", f"dense<{m}>")
    return canonical.form(text.replace("EXT", ext).replace("ZERO", zero))


def same(one, other):
    return form(**one) == form(**other)


def test_numbers_are_the_same_where_all_contents_of_a_byte_give_the_same():
    assert not same({"body": _MASKED, "c": 16, "m": 15 << 4}, {"body": _MASKED, "c": 17, "m": 15 << 4})
    assert same({"body": _MASKED, "c": 16, "m": 15 << 4}, {"body": _MASKED, "c": 16 + 256, "m": 15 << 4})
    assert same({"body": _MASKED, "m": -1}, {"body": _MASKED, "m": 255 * 16})
    assert not same({"body": _MASKED, "m": -1}, {"body": _MASKED, "m": 127 * 16})
    assert same({"body": _SHIFTED, "c": 1}, {"body": _SHIFTED, "c": 0})
    assert not same({"body": _SHIFTED, "c": 1, "ext": "extsi"}, {"body": _SHIFTED, "c": 0, "ext": "extsi"})


def test_an_exact_conversion_may_change_places_with_a_choice_of_zero():
    assert same({"body": _WIDE}, {"body": _NARROW})
    assert not same({"body": _WIDE}, {"body": _NARROW, "zero": "1.000000e+00"})
    assert not same({"body": _WIDE}, {"body": _NARROW.replace("%h, %zero", "%zero, %h")})


def test_results_of_one_operation_are_told_apart():
    split = "%a, %b = tt.split %pair : tensor<8x2xf32> -> tensor<8xf32>\n    %f = arith.subf %a, %b : tensor<8xf32>"
    pair = "%pair = tt.join %zeros, %zeros : tensor<8xf32> -> tensor<8x2xf32>\n    "
    assert same({"body": pair + split + _STORE}, {"body": pair + split.replace("%a", "%c") + _STORE})
    assert not same({"body": pair + split + _STORE}, {"body": pair + split.replace("%a, %b :", "%b, %a :") + _STORE})


def test_names_and_order_of_what_has_no_effect_do_not_matter():
    moved = _MASKED.replace("%k", "%other").replace("%w", "%before")
    assert same({"body": _MASKED}, {"body": "%unused = arith.addi %row, %row : tensor<8xi32>\n    " + moved})


def test_results_with_names_of_their_own_are_told_apart():
    split = "%j = tt.join %zeros, %zeros : tensor<8xf32> -> tensor<8x2xf32>\n    "
    split += "%a, %b = tt.split %j : tensor<8x2xf32> -> tensor<8xf32>\n    "
    stored = [split + _STORE.strip().replace("%f", name) for name in ("%a", "%b")]
    assert same({"body": stored[0]}, {"body": stored[0].replace("%a", "%left").replace("%b", "%right")})
    assert not same({"body": stored[0]}, {"body": stored[1]})


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (_MASKED, _MASKED.replace("tt.store %os, %f :", "tt.store %os, %f, %low :")),
        (_MASKED, _MASKED + _STORE),
        (_MASKED, _MASKED.replace("arith.sitofp %b", "arith.uitofp %b")),
        (_MASKED, _MASKED.replace("arith.muli %w, %c", "arith.muli %w, %row")),
        (_SUM, _SUM.replace("%acc, %w", "%w, %w")),
        (_SUM, _SUM.replace("to %n", "to %one")),
        (_SUM, _SUM.replace("%sum, %zeros", "%zeros, %zeros")),
    ],
    ids=["mask", "another store", "signedness", "factor", "what a loop carries", "bound of a loop", "result of a loop"],
)  # fmt: skip
def test_whatever_changes_an_effect_shows(body, changed):
    assert body != changed
    assert not same({"body": body}, {"body": changed})
