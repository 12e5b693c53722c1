package keytext

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestValues(t *testing.T) {
	for want, have := range map[string]string{
		"absent": Bytes(nil), "0x": Bytes([]byte{}), "0x00": Bytes([]byte{0}), "0x0aff": Bytes([]byte{10, 255}),
		`""`: Quote(""), `"a b~"`: Quote("a b~"), `"\x0a\x22\x5c\x7f\xc3\xa9"`: Quote("\n\"\\\x7fé"),
		"0": Real(0), "-0": Real(math.Copysign(0, -1)), "-7": Real(-7), "500000": Real(5e5), "3*2^-2": Real(0.75),
		"9007199254740991": Real(1<<53 - 1), "1*2^53": Real(1 << 53), "-1*2^53": Real(-1 << 53),
		"1*2^-1074": Real(math.SmallestNonzeroFloat64), "9007199254740991*2^971": Real(math.MaxFloat64),
		"13421773*2^-27": Real(float64(float32(0.1))), "3602879701896397*2^-55": Real(0.1),
		"2 1 1*2^-1": Reals([]float32{1, 0.5}), "1 0": Reals([]float32{0}),
		"nan": Real(math.NaN()), "inf": Real(math.Inf(1)), "-inf": Real(math.Inf(-1)),
		"yes": Flag(true), "set": Set(true, "set"), "no": Flag(false), "-3": Number(-3),
	} {
		require.Equal(t, want, have)
	}
	require.Equal(t, Absent, Set(false, "set"))
	require.Equal(t, Absent, Reals(nil))
	require.Equal(t, Absent, Reals([]float32{}))
}

// A number is written exactly, and in one way only.
func TestRealIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Skip()
		}
		digits, power, _ := strings.Cut(Real(v), "*2^")
		n, ok := new(big.Int).SetString(digits, 10)
		require.True(t, ok)
		exponent := 0
		if power != "" {
			var err error
			exponent, err = strconv.Atoi(power)
			require.NoError(t, err)
			require.EqualValues(t, 1, n.Bit(0), "odd")
		}
		back, accuracy := new(big.Float).SetMantExp(new(big.Float).SetInt(n), exponent).Float64()
		require.Equal(t, big.Exact, accuracy)
		require.Equal(t, v, back)
	})
}

// Whatever a field says, the lines are those that were written.
func TestNoValueForgesALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.String(), 2, 2).Draw(t, "a")
		b := rapid.SliceOfN(rapid.String(), 2, 2).Draw(t, "b")
		write := func(s []string) string {
			text := New("test")
			text.Line("one", Quote(s[0]), Quote(s[1]))
			text.Line("two", Bytes([]byte(s[1])))
			return string(text)
		}
		require.Equal(t, 3, strings.Count(write(a), "\n"))
		require.Equal(t, a[0] == b[0] && a[1] == b[1], write(a) == write(b))
	})
}
