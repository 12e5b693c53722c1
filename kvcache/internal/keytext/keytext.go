// Package keytext writes the texts whose SHA-256 sums begin the keys of blocks, one line a
// field, as docs/keys.md describes them. A person can compare two of them, and a program
// in any language can write one: nothing in it is a number of an enumeration, a byte order
// or a number that depends on how a library prints it.
package keytext

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// version is that of the format of keys: of all texts, and of how blocks are chained.
const version = "2"

// Absent is the value of what is not there, which is neither empty nor zero.
const Absent = "absent"

// Text is lines. A field cannot forge another one: no value has a line feed in it.
type Text []byte

// New is a text that begins by saying what it is of.
func New(of string) Text { return Text("ferrumkv " + of + " " + version + "\n") }

// Line adds a field: its name and values, with a space between them.
func (t *Text) Line(name string, values ...string) {
	*t = append(*t, name...)
	for _, v := range values {
		*t = append(append(*t, ' '), v...)
	}
	*t = append(*t, '\n')
}

// Sum is the SHA-256 sum of the text.
func (t Text) Sum() [sha256.Size]byte { return sha256.Sum256(t) }

// Bytes is 0x and two hexadecimal digits a byte; nil is absent.
func Bytes(b []byte) string {
	if b == nil {
		return Absent
	}
	return "0x" + hex.EncodeToString(b)
}

// Quote is a string in quotation marks, its bytes from space to tilde as they are but for
// quotation mark and backslash; those and all others as \x and two hexadecimal digits.
func Quote(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			b.Write([]byte{'\\', 'x', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Number is decimal digits.
func Number(n int) string { return strconv.Itoa(n) }

// Set is a value, or absent unless it is there.
func Set(is bool, value string) string {
	if !is {
		return Absent
	}
	return value
}

// Flag is yes or no.
func Flag(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}

// Real is a number, exactly: decimal digits for an integer below 2^53, and else an odd
// integer times a power of two, as in 3*2^-2 for 0.75; nan, inf and -inf for what has none.
func Real(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		sign := ""
		if v == 0 && math.Signbit(v) {
			sign = "-" // of a zero
		}
		return sign + strconv.FormatInt(int64(v), 10)
	}
	fraction, exponent := math.Frexp(v)
	n := int64(math.Ldexp(fraction, 53)) // 53 bits are all that it has
	for exponent -= 53; n%2 == 0; exponent++ {
		n /= 2
	}
	return strconv.FormatInt(n, 10) + "*2^" + strconv.Itoa(exponent)
}

// Reals are how many there are, and they; none are absent.
func Reals(list []float32) string {
	if len(list) == 0 {
		return Absent
	}
	var b strings.Builder
	b.WriteString(Number(len(list)))
	for _, v := range list {
		b.WriteString(" " + Real(float64(v)))
	}
	return b.String()
}
