package runner

import "github.com/ferrumkv/ferrumkv/internal/modelfile"

// What Load fails with, apart from errors of the file system.
type (
	ErrFile        = modelfile.ErrFile
	ErrUnsupported = modelfile.ErrUnsupported
)
