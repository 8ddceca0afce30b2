package sluice.metastore;

import org.apache.thrift.server.ServerContext;

/** A connection's context, of which Hive keeps nothing. */
public final class Context implements ServerContext {
  @Override
  public <T> T unwrap(Class<T> kind) {
    throw new UnsupportedOperationException(kind.getName());
  }

  @Override
  public boolean isWrapperFor(Class<?> kind) {
    return false;
  }
}
