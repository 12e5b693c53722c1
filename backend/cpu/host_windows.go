package cpu

import "os"

// processorName is the vendor's name of the processor; "" when unknown.
func processorName() string { return os.Getenv("PROCESSOR_IDENTIFIER") }
