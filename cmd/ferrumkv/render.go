package main

import (
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/spf13/cobra"
)

// newRender is the process in which a chat template is rendered: see chat.Apart. It is no command for people.
func newRender() *cobra.Command {
	return &cobra.Command{
		Use: chat.Apart, Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return chat.Serve(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
}
