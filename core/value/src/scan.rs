//! Checks that bytes are JSON, in one pass.
//!
//! Relies on nothing. Invariant: constant memory and time linear in the input; the open brackets
//! are one machine word each of count and kind, so nesting costs nothing and never recurses.

/// The deepest nesting that can be checked: the bits of the word that remembers open brackets.
pub const DEPTH_MAX: usize = 128;

/// Why bytes are not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {problem}")]
pub struct JsonError {
    /// Where it was noticed, in bytes from the beginning.
    pub at: usize,
    /// What is wrong there.
    pub problem: JsonProblem,
}

/// What is wrong with JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// It ends in the middle.
    #[error("the JSON text ends too early")]
    Ends,
    /// Something else must stand here.
    #[error("this cannot stand here in JSON")]
    Unexpected,
    /// More open brackets than allowed.
    #[error("arrays and objects are nested too deeply")]
    TooDeep,
    /// A control character inside a string.
    #[error("control characters in strings must be escaped")]
    Control,
    /// A backslash with something unknown behind it.
    #[error("unknown escape")]
    Escape,
    /// Not UTF-8.
    #[error("the text is not UTF-8")]
    Text,
    /// Something follows the value.
    #[error("something follows the value")]
    Trailing,
}

/// The end of the value that begins at `from`, behind white space.
pub(crate) fn value(bytes: &[u8], from: usize, depth_max: usize) -> Result<usize, JsonError> {
    let mut scanner =
        Scanner { bytes, at: from, objects: 0, depth: 0, depth_max: depth_max.min(DEPTH_MAX) };
    scanner.space();
    loop {
        if scanner.begin()? && scanner.end()? {
            return Ok(scanner.at);
        }
    }
}

/// The first place from `at` on that is not white space.
pub(crate) fn space(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    at + rest.iter().take_while(|byte| blank(byte)).count()
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// One bit for each open bracket, the innermost lowest: whether it is an object's.
    objects: u128,
    depth: usize,
    depth_max: usize,
}

impl Scanner<'_> {
    /// Takes what begins a value; says whether that was all of it.
    fn begin(&mut self) -> Result<bool, JsonError> {
        match self.peek()? {
            b'{' => {
                self.open(true)?;
                if self.peek()? == b'}' {
                    return Ok(self.close());
                }
                self.name()?;
                Ok(false)
            }
            b'[' => {
                self.open(false)?;
                if self.peek()? == b']' {
                    return Ok(self.close());
                }
                Ok(false)
            }
            b'"' => self.string().map(|()| true),
            b't' => self.word(b"true").map(|()| true),
            b'f' => self.word(b"false").map(|()| true),
            b'n' => self.word(b"null").map(|()| true),
            b'-' | b'0'..=b'9' => self.number().map(|()| true),
            _ => self.wrong(JsonProblem::Unexpected),
        }
    }

    /// Takes what follows a value; says whether the outermost is over. Otherwise another begins.
    fn end(&mut self) -> Result<bool, JsonError> {
        while self.depth > 0 {
            self.space();
            let object = self.objects & 1 == 1;
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    self.space();
                    if object {
                        self.name()?;
                    }
                    return Ok(false);
                }
                b'}' if object => self.close(),
                b']' if !object => self.close(),
                _ => return self.wrong(JsonProblem::Unexpected),
            };
        }
        Ok(true)
    }

    fn open(&mut self, object: bool) -> Result<(), JsonError> {
        if self.depth == self.depth_max {
            return self.wrong(JsonProblem::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        self.at += 1;
        self.space();
        Ok(())
    }

    fn close(&mut self) -> bool {
        self.depth -= 1;
        self.objects >>= 1;
        self.at += 1;
        true
    }

    /// A field's name and its colon.
    fn name(&mut self) -> Result<(), JsonError> {
        if self.peek()? != b'"' {
            return self.wrong(JsonProblem::Unexpected);
        }
        self.string()?;
        self.space();
        if self.peek()? != b':' {
            return self.wrong(JsonProblem::Unexpected);
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                0..=0x1f => return self.wrong(JsonProblem::Control),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
            b'u' => {
                for _ in 0..4 {
                    self.at += 1;
                    if !self.peek()?.is_ascii_hexdigit() {
                        return self.wrong(JsonProblem::Escape);
                    }
                }
            }
            _ => return self.wrong(JsonProblem::Escape),
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek()?.is_ascii_digit() {
            return self.wrong(JsonProblem::Unexpected);
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        for expected in word {
            if self.peek()? != *expected {
                return self.wrong(JsonProblem::Unexpected);
            }
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        self.at = space(self.bytes, self.at);
    }

    fn peek(&self) -> Result<u8, JsonError> {
        match self.bytes.get(self.at) {
            Some(byte) => Ok(*byte),
            None => self.wrong(JsonProblem::Ends),
        }
    }

    fn wrong<T>(&self, problem: JsonProblem) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, problem })
    }
}
