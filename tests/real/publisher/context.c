/* The part of a language's library that holds the thread's pointer (OTEP 4947), compiled in every way. */
struct thread_context;
__thread struct thread_context *otel_thread_ctx_v1;
void publish(struct thread_context *record) { otel_thread_ctx_v1 = record; }
