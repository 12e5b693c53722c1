// Package fromenv chooses the variants whose folders FERRUM_TEST_KERNELS lists, for the test programs that import it.
package fromenv

import (
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/variants"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

func init() {
	var sets []*cudakernels.Set
	for _, folder := range filepath.SplitList(os.Getenv("FERRUM_TEST_KERNELS")) {
		set, err := cudakernels.Open(os.DirFS(folder))
		if err != nil {
			panic("FERRUM_TEST_KERNELS: " + folder + ": " + err.Error())
		}
		sets = append(sets, set)
	}
	variants.Choose(sets...)
}
