package config

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns, or returns an error.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Plain: []any{&Config{}, &Model{}, new(Layout), new(Source), &ErrPoolSize{}, &Part{}, &Memory{}, &Tiers{}},
	})
}
