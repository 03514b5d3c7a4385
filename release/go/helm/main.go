// Command helm is Helm's own command line, from its module: what tests render and check the chart with.
package main

import (
	"errors"
	"log/slog"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "helm"
	command, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		slog.Error("command failed", slog.Any("error", err))
		os.Exit(1)
	}
	if err := command.Execute(); err != nil {
		if coded, ok := errors.AsType[helmcmd.CommandError](err); ok {
			os.Exit(coded.ExitCode)
		}
		os.Exit(1)
	}
}
