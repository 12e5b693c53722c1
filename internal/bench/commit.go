package bench

import (
	"os/exec"
	"strings"
)

// commit is that of the source; the linker sets it in programs that run elsewhere.
var commit string

// commitOfSource is the commit, of the clone that the program runs in where it was not told.
func commitOfSource() string {
	if commit != "" {
		return commit
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
