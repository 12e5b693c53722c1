package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
)

// repository is what Hugging Face calls a model.
var repository = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// notDownloaded says of an error of a model's path that is none, and looks like the name of a repository, how to get that.
func notDownloaded(model string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || !repository.MatchString(model) {
		return err
	}
	for _, name := range []string{model, path.Dir(model)} { // it may be a path of this machine
		if _, err2 := os.Stat(name); err2 == nil {
			return err
		}
	}
	return fmt.Errorf("--model %s: there is no such file or folder, and nothing is downloaded; 'hf download %[1]s --local-dir %s' gets a repository of Hugging Face, then name its folder, or a .gguf file in it", model, path.Base(model))
}
