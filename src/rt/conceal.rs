//! Keeps secrets out of what the kernel shows of this process.
//!
//! A child of the same user may read `/proc/PID/environ` and `/proc/PID/mem` of its ancestors. A key that came in by the
//! environment would be one `cat` away from the model.

use std::ffi::CString;

/// Overwrites the values of variables where the process was given them, and lets no other process of the user look into this one.
/// The variables are empty from then on. To be called while there is one thread.
pub fn conceal<'a>(variables: impl Iterator<Item = &'a str>) {
    for name in variables {
        let Ok(name) = CString::new(name) else { continue };
        // SAFETY: the value lies in memory that is the process's own and writable, and ends at its NUL; nobody else reads it now.
        unsafe {
            let value = libc::getenv(name.as_ptr());
            if !value.is_null() {
                std::ptr::write_bytes(value, 0, libc::strlen(value));
            }
        }
    }
    // SAFETY: a call without pointers. It cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}
