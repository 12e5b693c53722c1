package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// largestFile is more than any compiled kernel has.
const largestFile = 8 << 20

// The sources have no programs, nor other large files that every clone would carry for good.
func TestTrackedFilesAreSmall(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("not a checkout of git")
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	require.Greater(t, len(names), 500)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("../..", name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(largestFile), name)
	}
}
