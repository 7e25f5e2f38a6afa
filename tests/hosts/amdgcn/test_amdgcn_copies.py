"""Waves that store copies of one value: what makes values equal, and what only looks like it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from oracles.programs.amdgcn_kernels import check, codes, kernel
from tidegate.hosts.isa.alike import Alike, first_equal, merge_alike
from tidegate.hosts.isa.values import Pred, Value, unknown, unsure

# Waves 0 and 2 load one row, waves 1 and 3 the other, and each stores what it has loaded to where the row belongs.
COPIES = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_and_b32_e32 v1, 0x7f, v0
v_lshlrev_b32_e32 v1, 2, v1
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[2:3]
s_waitcnt vmcnt(0)
ds_write_b32 v1, v2
s_waitcnt lgkmcnt(0)
s_barrier
v_xor_b32_e32 v3, 0x100, v1
ds_read_b32 v4, v3
s_waitcnt lgkmcnt(0)
"""
WIDE = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_and_b32_e32 v1, 0x7f, v0
v_lshlrev_b32_e32 v1, 2, v1
v_mov_b32_e32 v5, 0
s_waitcnt lgkmcnt(0)
v_add_co_u32_e32 v6, vcc, s2, v1
v_addc_co_u32_e32 v7, vcc, 0, v5, vcc
global_load_dwordx2 v[2:3], v[6:7], off
s_waitcnt vmcnt(0)
v_add_f32_e32 v2, v2, v3
v_mfma_f32_4x4x1f32 v[8:11], v2, v3, v[8:11]
ds_write_b32 v1, v2
"""


def proved(body: str) -> bool:
    return check(kernel(body)).is_proved


def test_copies_of_what_was_loaded_from_one_address_are_no_race() -> None:
    assert proved(COPIES)


def test_what_was_loaded_from_other_addresses_is_a_race() -> None:
    assert codes(kernel(COPIES.replace("global_load_dword v2, v1,", "global_load_dword v2, v0,"))) == {"TG103"}


def test_addresses_of_64_bits_and_their_carries_are_followed() -> None:
    assert proved(WIDE)
    other = WIDE.replace("v_mov_b32_e32 v5, 0", "v_lshrrev_b32_e32 v5, 7, v0")
    assert codes(kernel(other)) == {"TG103"}


def test_lanes_that_look_at_others_are_alike_if_their_waves_are() -> None:
    summed = COPIES.replace(
        "ds_write_b32 v1", "v_add_f32_dpp v2, v2, v2 row_shr:1 row_mask:0xf bank_mask:0xf\nds_write_b32 v1"
    )
    assert proved(summed)
    # Lane 0 of all waves loads the same, and the others do not.
    mixed = summed.replace("global_load_dword v2, v1,", "global_load_dword v2, v5,")
    mixed = mixed.replace(
        "s_waitcnt lgkmcnt(0)\nglobal",
        "v_and_b32_e32 v5, 63, v0\nv_mul_u32_u24_e32 v5, v5, v0\ns_waitcnt lgkmcnt(0)\nglobal",
    )
    assert codes(kernel(mixed)) == {"TG103"}


@pytest.mark.parametrize(
    "name", ["v_fmac_f32_e32 v2, s2, v4", "v_mac_f32_e32 v2, s2, v4", "v_cvt_pk_fp8_f32 v2, s2, v4"]
)
def test_an_instruction_that_reads_its_result_keeps_differences(name: str) -> None:
    """The two operands are the same in all threads, and what the register held is not."""
    body = f"""
    v_mov_b32_e32 v4, 0
    v_cvt_f32_u32_e32 v2, v0
    {name}
    v_and_b32_e32 v1, 63, v0
    v_lshlrev_b32_e32 v1, 2, v1
    ds_write_b32 v1, v2
    """
    assert codes(kernel(body)) == {"TG103"}


def test_a_branch_on_a_sum_with_what_differs_is_none_of_all_waves() -> None:
    """`v_fmac` adds to its result: a barrier behind it is not one that all waves reach."""
    body = """
    v_mov_b32_e32 v4, 0
    v_cvt_f32_u32_e32 v2, v0
    v_fmac_f32_e32 v2, s2, v4
    v_cmp_gt_f32_e32 vcc, 0, v2
    s_cbranch_vccnz .LBB0_1
    s_barrier
    .LBB0_1:
    """
    assert not proved(body)


def test_a_kernel_that_listens_may_load_two_values_from_one_address() -> None:
    waiting = COPIES.replace(
        "global_load_dword v2, v1, s[2:3]", "global_load_dword v2, v1, s[2:3] sc0 sc1\nbuffer_inv sc0 sc1"
    )
    assert codes(kernel(waiting)) == {"TG103"}
    assert proved(waiting.replace("buffer_inv sc0 sc1", ""))


def test_atomics_give_each_wave_another_value() -> None:
    text = COPIES.replace("global_load_dword v2, v1, s[2:3]", "global_atomic_add v2, v1, v5, s[2:3] sc0")
    assert codes(kernel(text)) == {"TG103"}


def test_copies_in_the_background_agree_as_well() -> None:
    body = """
    s_load_dwordx4 s[8:11], s[0:1], 0x0
    v_and_b32_e32 v1, 63, v0
    v_lshlrev_b32_e32 v1, 2, v1
    s_mov_b32 m0, 0
    s_waitcnt lgkmcnt(0)
    buffer_load_dword v1, s[8:11], 0 offen lds
    s_waitcnt vmcnt(0)
    s_barrier
    ds_read_b32 v2, v1
    s_waitcnt lgkmcnt(0)
    """
    assert proved(body)
    assert codes(kernel(body.replace("v_and_b32_e32 v1, 63, v0", "v_mov_b32_e32 v1, v0"))) >= {"TG103"}


def test_a_shuffle_in_the_long_encoding_is_one() -> None:
    """`_e64_dpp` of gfx11: the first operand comes from another lane."""
    text = kernel(
        """
        v_lshlrev_b32_e32 v1, 2, v0
        v_add_nc_u32_e64_dpp v2, v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf
        ds_store_b32 v2, v3
        """,
        "gfx1100",
    )
    assert not check(text).is_proved


# --- flat addresses -----------------------------------------------------------------------------------------------

FLAT = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v5, 0
s_waitcnt lgkmcnt(0)
v_lshl_add_u64 v[6:7], s[2:3], 0, v[0:1]
flat_store_dword v[6:7], v5
ds_write_b32 v1, v5
s_waitcnt vmcnt(0) lgkmcnt(0)
s_barrier
v_xor_b32_e32 v3, 0x100, v1
ds_read_b32 v4, v3
s_waitcnt lgkmcnt(0)
"""


def test_a_flat_address_leads_to_shared_memory_only_if_the_kernel_asks_where_it_lies() -> None:
    assert proved(FLAT)
    assert not proved(FLAT.replace("v_mov_b32_e32 v5, 0", "v_mov_b32_e32 v5, src_shared_base"))


# --- the last barrier of a kernel ---------------------------------------------------------------------------------

STAGGERED = """
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x200, v1
v_cmp_lt_u32_e32 vcc, 0x7f, v0
s_and_saveexec_b64 s[2:3], vcc
s_cbranch_execz .LBB0_1
s_barrier
.LBB0_1:
s_or_b64 exec, exec, s[2:3]
ds_write_b32 v1, v3
s_waitcnt lgkmcnt(0)
s_barrier
s_barrier
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)
v_cmp_gt_u32_e32 vcc, 0x80, v0
s_and_saveexec_b64 s[2:3], vcc
s_cbranch_execz .LBB0_2
s_barrier
.LBB0_2:
s_or_b64 exec, exec, s[2:3]
"""


def test_waves_that_catch_up_at_the_end_meet_the_others() -> None:
    """Half of the waves lags one barrier behind; the other half waits for it in front of the end."""
    assert proved(STAGGERED)
    assert not proved(STAGGERED.replace("s_barrier\ns_barrier\nds_read", "s_barrier\nds_read"))


# --- what is alike, by itself -------------------------------------------------------------------------------------


def of(chance: random.Random, threads: int) -> tuple[Value, np.ndarray]:
    """A value of which lanes are known or not, and numbers that it may stand for."""
    alike = first_equal(np.array([chance.randrange(4) for _ in range(threads)]))
    known = np.array([chance.random() < 0.5 for _ in range(threads)])
    base = np.array([chance.randrange(3) for _ in range(threads)])
    drawn = [chance.randrange(5) for _ in range(threads)]
    numbers = np.where(known, base, np.array(drawn)[alike])
    return Value(base, known=known, alike=alike), numbers


@pytest.mark.parametrize("seed", range(200))
def test_threads_that_are_alike_hold_the_same_numbers(seed: int) -> None:
    chance = random.Random(seed)
    threads, lanes = 16, 4
    ways = Alike(threads, lanes)
    (one, first), (other, second) = of(chance, threads), of(chance, threads)
    truths = np.array([chance.random() < 0.5 for _ in range(threads)])
    known = np.array([chance.random() < 0.7 for _ in range(threads)])
    lots = first_equal(np.array([chance.randrange(3) for _ in range(threads)]))
    hidden = np.where(known, truths, np.array([chance.random() < 0.5 for _ in range(threads)])[lots])
    pred = Pred(truths, known, alike=lots)
    turned = first.reshape(-1, lanes)[:, ::-1].reshape(-1)
    upper = np.arange(threads) >= threads // 2
    for classes, numbers in (
        (ways.of(one), first),
        (ways.together(ways.of(one), ways.of(other)), first * 7 + second),
        (ways.chosen(pred, one, other), np.where(hidden, first, second)),
        (ways.by_wave(ways.of(one)), turned),
        (ways.of(merge_alike(upper, one, ~upper, other)), np.where(upper, first, second)),
    ):
        assert (numbers == numbers[classes]).all()


def test_nothing_is_alike_of_which_nobody_knows() -> None:
    ways = Alike(8, 4)
    for held in (unknown(8, False), unsure(8, False)):
        assert (ways.of(held) == np.arange(8)).all()
    assert not ways.of(unknown(8, True)).any()
