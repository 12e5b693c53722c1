package schedule

import (
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

func TestMain(m *testing.M) {
	testsize.Histories(300)
	os.Exit(m.Run())
}
