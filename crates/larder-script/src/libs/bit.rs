//! `bit`: operations on 32 bits, as those of Lua BitOp 1.0.2.

use crate::raw::{Results, State};

/// Adds its functions to the table on top.
pub(super) fn open(state: State) {
    let table = state.top();
    macro_rules! set {
        ($($name:literal $function:expr;)*) => {
            $(state.push_function($function, 0);
            state.set_raw_field(table, $name);)*
        };
    }
    set! {
        "tobit" |state: State| push(state, argument(state, 1));
        "bnot" |state: State| push(state, !argument(state, 1));
        "band" |state: State| fold(state, |one, other| one & other);
        "bor" |state: State| fold(state, |one, other| one | other);
        "bxor" |state: State| fold(state, |one, other| one ^ other);
        "lshift" |state: State| shift(state, |bits, by| bits << by);
        "rshift" |state: State| shift(state, |bits, by| bits >> by);
        "arshift" |state: State| shift(state, |bits, by| (bits.cast_signed() >> by).cast_unsigned());
        "rol" |state: State| shift(state, u32::rotate_left);
        "ror" |state: State| shift(state, u32::rotate_right);
        "bswap" |state: State| push(state, argument(state, 1).swap_bytes());
        "tohex" tohex;
    }
}

/// The bits of an argument: the low 32 of its integer, rounded.
fn argument(state: State, at: i32) -> u32 {
    // Adding 2^52 + 2^51 puts the integer into the low bits of the float.
    let bits = (state.check_number(at) + 6_755_399_441_055_744.0).to_bits();
    u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0)
}

fn push(state: State, bits: u32) -> Results {
    state.push_number(f64::from(bits.cast_signed()));
    Ok(1)
}

fn fold(state: State, join: fn(u32, u32) -> u32) -> Results {
    let mut bits = argument(state, 1);
    for at in 2..=state.top() {
        bits = join(bits, argument(state, at));
    }
    push(state, bits)
}

fn shift(state: State, by: fn(u32, u32) -> u32) -> Results {
    push(state, by(argument(state, 1), argument(state, 2) & 31))
}

fn tohex(state: State) -> Results {
    let bits = argument(state, 1);
    let digits = if state.top() < 2 { 8 } else { argument(state, 2).cast_signed() };
    let letters = if digits < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let digits = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
    let mut text = [0; 8];
    for (at, letter) in text.iter_mut().rev().enumerate() {
        *letter = letters[(bits >> (4 * at) & 15) as usize];
    }
    state.push_bytes(&text[8 - digits..]);
    Ok(1)
}
