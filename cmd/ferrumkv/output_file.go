package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checkOutput says beforehand why the file that a flag names could not be written.
// No name is no file.
func checkOutput(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("--%s %s: there is no directory %s", flag, file, filepath.Dir(file))
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("--%s %s: is a directory", flag, file)
	}
	return nil
}
