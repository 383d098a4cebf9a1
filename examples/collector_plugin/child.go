package schedreceiver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// readyMessage is what schedscope logs, as the Collector does, when every component runs.
const readyMessage = "Everything is ready"

// runChild runs one child until it ends or ctx does (then SIGTERM, and SIGKILL after stop_timeout). The error tells how
// it ended, with its last words; it is never nil unless ctx has ended.
func runChild(ctx context.Context, config *Config, file string, logger *zap.Logger, onReady func()) error {
	command := exec.CommandContext(ctx, config.Binary, "--config", file)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = config.StopTimeout
	log := &logForwarder{logger: logger, onMessage: func(message string) {
		if strings.HasPrefix(message, readyMessage) {
			onReady()
		}
	}}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot start schedscope: %w", err)
	}
	logger.Info("schedscope started", zap.Int("pid", command.Process.Pid))
	err := command.Wait()
	log.flush()
	if ctx.Err() != nil {
		if errors.Is(err, exec.ErrWaitDelay) || killed(command) {
			return fmt.Errorf("it did not end within stop_timeout (%v) and was killed", config.StopTimeout)
		}
		return nil
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	if words := log.lastWords(); words != "" {
		return fmt.Errorf("schedscope ended: %w:\n%s", err, words)
	}
	return fmt.Errorf("schedscope ended: %w", err)
}

func killed(command *exec.Cmd) bool {
	status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
