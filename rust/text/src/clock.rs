//! `strftime_now`: the local time, or a given one, formatted by the C library.

use std::ffi::CString;

/// A moment in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    year: i32,  // since 1900
    month: i32, // 0 to 11
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
    week_day: i32, // since Sunday
    year_day: i32, // 0 to 365
    microseconds: u32,
}

fn digits(text: &str, from: usize, count: usize) -> Option<i32> {
    let part = text.get(from..from + count)?;
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
}

fn empty_time() -> libc::tm {
    // SAFETY: every field of libc::tm may be zero, its pointer too.
    unsafe { std::mem::zeroed() }
}

impl Moment {
    pub fn now() -> Result<Self, String> {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|error| format!("the clock stands before 1970: {error}"))?;
        let seconds = libc::time_t::try_from(since.as_secs()).map_err(|error| error.to_string())?;
        let mut time = empty_time();
        // SAFETY: both pointers are valid for the call.
        let done = unsafe { libc::localtime_r(&seconds, &mut time) };
        if done.is_null() {
            return Err("the local time is not known".to_string());
        }
        Ok(Moment { microseconds: since.subsec_micros(), ..Self::from_time(&time) })
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = || format!("clock '{text}' is not of the form 2024-07-26T12:00:00");
        let shape: String =
            text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if shape != "0000-00-00T00:00:00" {
            return Err(refuse());
        }
        let part = |from, count| digits(text, from, count).ok_or_else(refuse);
        let given = Moment {
            year: part(0, 4)? - 1900,
            month: part(5, 2)? - 1,
            day: part(8, 2)?,
            hour: part(11, 2)?,
            minute: part(14, 2)?,
            second: part(17, 2)?,
            week_day: 0,
            year_day: 0,
            microseconds: 0,
        };
        let mut time = given.to_time();
        // SAFETY: the pointer is valid; timegm fills in the day of the week and of the year.
        unsafe { libc::timegm(&mut time) };
        let moment = Self::from_time(&time);
        if (Moment { week_day: 0, year_day: 0, ..moment }) != given {
            return Err(format!("clock '{text}' is no date and time"));
        }
        Ok(moment)
    }

    fn from_time(time: &libc::tm) -> Self {
        Moment {
            year: time.tm_year,
            month: time.tm_mon,
            day: time.tm_mday,
            hour: time.tm_hour,
            minute: time.tm_min,
            second: time.tm_sec,
            week_day: time.tm_wday,
            year_day: time.tm_yday,
            microseconds: 0,
        }
    }

    fn to_time(self) -> libc::tm {
        let mut time = empty_time();
        time.tm_year = self.year;
        time.tm_mon = self.month;
        time.tm_mday = self.day;
        time.tm_hour = self.hour;
        time.tm_min = self.minute;
        time.tm_sec = self.second;
        time.tm_wday = self.week_day;
        time.tm_yday = self.year_day;
        time
    }

    /// Python's `datetime.strftime` of a local time without a zone.
    pub fn format(&self, format: &str) -> Result<String, String> {
        if format.is_empty() {
            return Ok(String::new());
        }
        // A leading character tells an empty result from a buffer that is too small.
        let format = CString::new(format!("x{}", self.without_zone(format)))
            .map_err(|_| "the time format contains a zero byte".to_string())?;
        let mut buffer = vec![0u8; 256 + 16 * format.as_bytes().len()];
        // SAFETY: the buffer has the length given; both pointers are valid.
        let written = unsafe {
            libc::strftime(
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                format.as_ptr(),
                &self.to_time(),
            )
        };
        if written == 0 {
            return Err("the formatted time is too long".to_string());
        }
        String::from_utf8(buffer[1..written].to_vec()).map_err(|error| error.to_string())
    }

    /// Python answers %f, %z and %Z itself.
    fn without_zone(&self, format: &str) -> String {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '%' { chars.next() } else { None }) {
                ('%', Some('f')) => out.push_str(&format!("{:06}", self.microseconds)),
                ('%', Some('z' | 'Z')) => {}
                ('%', Some(other)) => out.extend(['%', other]),
                ('%', None) => out.push_str("%%"),
                (other, _) => out.push(other),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_a_given_moment() {
        let moment = Moment::parse("2024-07-26T01:02:03").unwrap();
        assert_eq!(moment.format("%d %b %Y").unwrap(), "26 Jul 2024");
        assert_eq!(
            moment.format("%A %j %H:%M:%S.%f%z%Z %%z").unwrap(),
            "Friday 208 01:02:03.000000 %z"
        );
        assert_eq!(moment.format("").unwrap(), "");
        assert_eq!(moment.format("é").unwrap(), "é");
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in
            ["2024-07-26", "2024-02-30T00:00:00", "2024-13-01T00:00:00", "2024-07-26 01:02:03"]
        {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
        assert!(Moment::now().unwrap().format("%Y").unwrap().len() == 4);
    }
}
