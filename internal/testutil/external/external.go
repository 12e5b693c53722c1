// Package external finds the test data that is not in the repository, because it is large
// or others': models, texts, traces. docs/test-data.md says what it is, where it comes from
// and where it goes. Tests that need it skip without.
package external

import (
	"os"
	"path/filepath"
	"testing"
)

// Variable names the folder with the data. Where it is not set that is ../shared/data
// beside the repository.
const Variable = "FERRUM_TEST_DATA"

// named is read before a test can change the environment.
var named = os.Getenv(Variable)

// Path is the path of a file or a folder of the data, by its parts. Without it the test is
// skipped, or fails where the variable says that there is data.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	name := filepath.ToSlash(filepath.Join(parts...))
	path := filepath.Join(folder(named), name)
	switch _, err := os.Stat(path); {
	case err == nil:
	case named != "" && missing(named):
		t.Fatalf("%s=%s: no such folder; tests run in the folders of their packages, so name it by an absolute path", Variable, named)
	default:
		t.Skipf("without the optional test data %s: docs/test-data.md says where it comes from and where it goes", name)
	}
	return path
}

// folder is where the data lies.
func folder(named string) string {
	if named != "" {
		return named
	}
	root, err := os.Getwd()
	for err == nil && missing(filepath.Join(root, "go.work")) {
		if root == filepath.Dir(root) {
			return "" // a test program without a checkout
		}
		root = filepath.Dir(root)
	}
	return filepath.Join(root, "..", "shared", "data")
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}
