//! The mathematical functions of C behind Rust's `f64`: a program with these does not need `libm.so`.
//!
//! Rust hands `f64::powf`, `log10` and their like to the C library. The loader then opens, maps and relocates `libm.so` at each
//! start: 0.12 ms of the 2 ms that `gush cat /dev/null` takes. The crate `libm` has the same functions in Rust, from musl's.
//! The linker takes a function of the program before one of a shared library, and leaves out a library that nothing needs.

/// Defines functions of one or two numbers in the C convention, each by the function of the same name of the crate `libm`.
macro_rules! define {
    ($($name:ident($($argument:ident),+);)+) => {
        $(
            // SAFETY: the C library's function of this name takes and gives the same numbers (C99, 7.12).
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: f64),+) -> f64 {
                libm::$name($($argument),+)
            }
        )+
    };
}

define! {
    exp(x);
    log(x);
    log10(x);
    log1p(x);
    log2(x);
    pow(x, y);
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    /// `f64`'s functions end here, because the linker prefers a function of the program.
    #[test]
    fn the_numbers_are_those_of_mathematics() {
        let close = |found: f64, expected: f64| (found - expected).abs() <= expected.abs() * 4e-16;
        assert!(close(black_box(1.0f64).exp(), std::f64::consts::E));
        assert_eq!(black_box(-1000.0f64).exp(), 0.0);
        assert!(close(black_box(1e-9f64).ln_1p(), 9.999_999_995e-10));
        assert!(close(black_box(1000.0f64).log10(), 3.0));
        assert!(close(black_box(10.0f64).ln(), std::f64::consts::LN_10));
        assert!(close(black_box(1.5f64).powf(black_box(2.5)), 2.755_675_960_631_075_4));
        for power in -20..20 {
            assert_eq!(black_box(2f64).powi(power).log2(), f64::from(power));
        }
        assert!(black_box(-1.0f64).log10().is_nan());
        assert_eq!(black_box(0.0f64).log10(), f64::NEG_INFINITY);
    }
}
