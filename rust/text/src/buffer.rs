//! What crosses the ABI: owned byte buffers, borrowed slices, and the guard around every entry.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

pub const OK: i32 = 0;
pub const FAILED: i32 = 1;
pub const PANICKED: i32 = 2;

/// Bytes owned by this crate until `rt_buffer_free`.
#[repr(C)]
pub struct RtBuffer {
    pub data: *mut u8,
    pub len: usize,
    pub capacity: usize,
}

impl RtBuffer {
    pub fn from_vec(mut bytes: Vec<u8>) -> Self {
        let buffer =
            RtBuffer { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity() };
        std::mem::forget(bytes);
        buffer
    }

    /// # Safety
    /// The parts are those of a buffer made by `from_vec`, not freed before.
    pub unsafe fn into_vec(self) -> Vec<u8> {
        if self.data.is_null() {
            return Vec::new();
        }
        Vec::from_raw_parts(self.data, self.len, self.capacity)
    }
}

/// # Safety
/// `data` points at `len` readable bytes, or `len` is 0.
pub unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, len)
}

/// # Safety
/// As `bytes`.
pub unsafe fn text<'a>(data: *const u8, len: usize) -> Result<&'a str, String> {
    std::str::from_utf8(bytes(data, len))
        .map_err(|error| format!("invalid UTF-8 at byte {}", error.valid_up_to()))
}

/// # Safety
/// `data` points at `len` readable ids, or `len` is 0.
pub unsafe fn ids<'a>(data: *const u32, len: usize) -> &'a [u32] {
    if len == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, len)
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn install_quiet_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !INSIDE.with(Cell::get) {
                previous(info);
            }
        }));
    });
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    format!("panic inside the text crate: {text}")
}

/// Runs `body`, writes its bytes or its error message to `out` and returns the code. A panic of
/// `body` ends here and prints nothing.
///
/// # Safety
/// `out` is valid for a write; what it held is overwritten without being freed.
pub unsafe fn guarded(out: *mut RtBuffer, body: impl FnOnce() -> Result<Vec<u8>, String>) -> i32 {
    install_quiet_hook();
    let before = INSIDE.with(|inside| inside.replace(true));
    let result = catch_unwind(AssertUnwindSafe(body));
    INSIDE.with(|inside| inside.set(before));
    let (code, content) = match result {
        Ok(Ok(content)) => (OK, content),
        Ok(Err(message)) => (FAILED, message.into_bytes()),
        Err(payload) => (PANICKED, panic_message(payload.as_ref()).into_bytes()),
    };
    out.write(RtBuffer::from_vec(content));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: impl FnOnce() -> Result<Vec<u8>, String>) -> (i32, String) {
        let mut out = RtBuffer { data: std::ptr::null_mut(), len: 0, capacity: 0 };
        let code = unsafe { guarded(&mut out, body) };
        (code, String::from_utf8(unsafe { out.into_vec() }).unwrap())
    }

    #[test]
    fn results_errors_and_panics_have_their_codes() {
        assert_eq!(run(|| Ok(b"x".to_vec())), (OK, "x".to_string()));
        assert_eq!(run(|| Err("no".to_string())), (FAILED, "no".to_string()));
        let (code, message) = run(|| panic!("number {}", 7));
        assert_eq!(code, PANICKED);
        assert_eq!(message, "panic inside the text crate: number 7");
    }

    #[test]
    fn invalid_utf8_names_the_byte() {
        let input = [b'a', 0xff];
        let error = unsafe { text(input.as_ptr(), input.len()) }.unwrap_err();
        assert_eq!(error, "invalid UTF-8 at byte 1");
    }
}
