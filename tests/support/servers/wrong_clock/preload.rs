//! A library to preload: the wall clock of the program is wrong by the seconds that the file `LIMITER_WRONG_CLOCK` names.
//!
//! Without std, since it runs inside of programs that have their own allocator and loader. The monotonic clock stays as
//! it is: it only measures how long something takes.

#![no_std]

use core::ffi::{c_char, c_int, c_long, c_void};

#[cfg(target_arch = "x86_64")]
const CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const CLOCK_GETTIME: c_long = 113;

const REALTIME: c_int = 0;
const REALTIME_COARSE: c_int = 5;

#[repr(C)]
pub struct Timespec {
    seconds: c_long,
    nanos: c_long,
}

#[repr(C)]
pub struct Timeval {
    seconds: c_long,
    micros: c_long,
}

#[link(name = "c")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(file: c_int, buffer: *mut c_void, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

/// What the kernel says, and the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    unsafe {
        let failed = syscall(CLOCK_GETTIME, clock, time);
        if failed == 0 && (clock == REALTIME || clock == REALTIME_COARSE) {
            (*time).seconds += wrong_by();
        }
        failed as c_int
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Timeval, _zone: *mut c_void) -> c_int {
    let mut now = Timespec { seconds: 0, nanos: 0 };
    unsafe {
        let failed = clock_gettime(REALTIME, &raw mut now);
        *time = Timeval { seconds: now.seconds, micros: now.nanos / 1_000 };
        failed
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(seconds: *mut c_long) -> c_long {
    let mut now = Timespec { seconds: 0, nanos: 0 };
    unsafe {
        clock_gettime(REALTIME, &raw mut now);
        if !seconds.is_null() {
            *seconds = now.seconds;
        }
    }
    now.seconds
}

fn wrong_by() -> c_long {
    let mut text = [0_u8; 24];
    unsafe {
        let name = getenv(c"LIMITER_WRONG_CLOCK".as_ptr());
        let file = if name.is_null() { -1 } else { open(name, 0) };
        if file < 0 {
            return 0;
        }
        read(file, text.as_mut_ptr().cast(), text.len());
        close(file);
    }
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    let seconds = digits.fold(0, |seconds, digit| seconds * 10 + c_long::from(digit - b'0'));
    if text[0] == b'-' { -seconds } else { seconds }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
