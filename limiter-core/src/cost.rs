//! How many permits a call takes.

/// What can be the cost of a call: any integer.
///
/// A call of cost 0 takes nothing. A negative cost is a mistake nobody may profit from: it counts as more than any
/// limit allows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the cost of a call",
    label = "not a whole number",
    note = "a cost is an integer of any type, such as `items.len()`"
)]
pub trait Cost {
    /// The cost in permits.
    fn permits(self) -> u64;
}

macro_rules! costs {
    ($($number:ty),*) => {$(
        impl Cost for $number {
            #[inline]
            fn permits(self) -> u64 {
                u64::try_from(self).unwrap_or(u64::MAX)
            }
        }
    )*};
}
costs!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl<C: Cost + Copy> Cost for &C {
    fn permits(self) -> u64 {
        (*self).permits()
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn nobody_profits_from_a_negative_cost() {
        assert_eq!(3u8.permits(), 3);
        assert_eq!(3i32.permits(), 3);
        assert_eq!((-1).permits(), u64::MAX);
        assert_eq!(u128::MAX.permits(), u64::MAX);
    }
}
