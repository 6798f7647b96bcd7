package statuspage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves the page until the context ends.
func Serve(ctx context.Context, listener net.Listener, page http.Handler) error {
	server := &http.Server{
		Handler:           page,
		ReadHeaderTimeout: 10 * time.Second,
		// Streams of events end with the context, and not by themselves.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		closed <- server.Shutdown(grace)
	})
	defer stop()
	err := server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-closed; err != nil {
		return server.Close() // who still listens has had its second
	}
	return nil
}
