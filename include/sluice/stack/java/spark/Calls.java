package sluice.sql;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TCLIService;
import org.apache.hive.service.rpc.thrift.TExecuteStatementReq;
import org.apache.hive.service.rpc.thrift.TExecuteStatementResp;
import org.apache.hive.service.rpc.thrift.TFetchResultsReq;
import org.apache.hive.service.rpc.thrift.TFetchResultsResp;
import org.apache.hive.service.rpc.thrift.TGetInfoResp;
import org.apache.hive.service.rpc.thrift.TGetInfoValue;
import org.apache.hive.service.rpc.thrift.TGetOperationStatusResp;
import org.apache.hive.service.rpc.thrift.TOpenSessionReq;
import org.apache.hive.service.rpc.thrift.TOpenSessionResp;
import org.apache.hive.service.rpc.thrift.TOperationHandle;
import org.apache.hive.service.rpc.thrift.TOperationState;
import org.apache.hive.service.rpc.thrift.TProtocolVersion;
import org.apache.hive.service.rpc.thrift.TSessionHandle;
import org.apache.hive.service.rpc.thrift.TStatus;
import org.apache.hive.service.rpc.thrift.TStatusCode;
import org.apache.spark.sql.SparkSession;
import org.apache.thrift.TApplicationException;

/**
 * The calls of one client. A call that is not in {@code ALLOWED} is refused, and so is a session or an operation that
 * another user made.
 */
final class Calls implements InvocationHandler {
  private static final Set<String> ALLOWED =
      Set.of(
          "OpenSession", "CloseSession", "GetInfo", "ExecuteStatement", "GetTypeInfo", "GetCatalogs", "GetSchemas",
          "GetTables", "GetTableTypes", "GetColumns", "GetFunctions", "GetPrimaryKeys", "GetCrossReference",
          "GetOperationStatus", "CancelOperation", "CloseOperation", "GetResultSetMetadata", "FetchResults",
          "GetQueryId");

  /** What may still be done after the log-in is over. */
  private static final Set<String> ENDING = Set.of("CloseSession", "CancelOperation", "CloseOperation");

  private static final int LISTS_OF_CONNECTION = 64;
  private static final int SESSIONS_OF_CONNECTION = 16;
  private static final TStatus DONE = new TStatus(TStatusCode.SUCCESS_STATUS);

  private final Connection connection;
  private final TCLIService.Iface hive;
  private final CLIService service;
  private final Limits limits;
  private final Statements statements;

  Calls(Connection connection, TCLIService.Iface hive, CLIService service, Limits limits, Statements statements) {
    this.connection = connection;
    this.hive = hive;
    this.service = service;
    this.limits = limits;
    this.statements = statements;
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    String call = method.getName();
    if (method.getDeclaringClass() == Object.class) {
      return method.invoke(this, arguments);
    }
    try {
      if (!ALLOWED.contains(call)) {
        throw new Refused("the call " + call + " is not allowed here");
      }
      if (!ENDING.contains(call) && !connection.holds()) {
        throw new Refused(
            "your log-in is over: the user was removed, or has another password or role; log in again");
      }
      checkHandles(arguments[0]);
      return answer(call, method, arguments[0]);
    } catch (HiveSQLException error) {
      return failed(method, error.toTStatus());
    } catch (OutOfMemoryError | StackOverflowError tooLarge) {
      return failed(method, new Refused(tooLarge.toString()).toTStatus());
    }
  }

  private Object answer(String call, Method method, Object request) throws Throwable {
    switch (call) {
      case "OpenSession":
        return open((TOpenSessionReq) request);
      case "ExecuteStatement":
        return execute((TExecuteStatementReq) request);
      case "FetchResults":
        return fetch((TFetchResultsReq) request);
      case "GetOperationStatus":
        statements.settle(new OperationHandle(operationOf(request)));
        return status((TGetOperationStatusResp) pass(method, request), request);
      case "CloseOperation":
        Object closed = pass(method, request);
        statements.forget(new OperationHandle(operationOf(request)));
        return closed;
      case "CloseSession":
        SessionHandle session = new SessionHandle(sessionOf(request));
        statements.forget(session);
        connection.sessions.remove(session);
        return pass(method, request);
      default:
        return keepFew(pass(method, request));
    }
  }

  /** A list of tables or columns is kept until it is closed: of those that nobody closes the oldest go. */
  private Object keepFew(Object answer) {
    TOperationHandle made = operationOf(answer);
    if (made != null) {
      connection.lists.add(new OperationHandle(made));
      if (connection.lists.size() > LISTS_OF_CONNECTION) {
        try {
          service.closeOperation(connection.lists.remove());
        } catch (HiveSQLException closed) {
          // The client closed it.
        }
      }
    }
    return answer;
  }

  private Object pass(Method method, Object request) throws Throwable {
    try {
      return method.invoke(hive, request);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }

  /** The session's settings are made here from what is allowed; nothing that the client sends gets to Hive. */
  private TOpenSessionResp open(TOpenSessionReq request) throws HiveSQLException {
    Opening opening = Opening.of(request.getConfiguration());
    if (connection.sessions.size() >= SESSIONS_OF_CONNECTION) {
      throw new Refused("this connection has " + SESSIONS_OF_CONNECTION + " sessions: close one of them");
    }
    TProtocolVersion version = request.getClient_protocol();
    if (version == null || version.getValue() > CLIService.SERVER_VERSION.getValue()) {
      version = CLIService.SERVER_VERSION;
    }
    Map<String, String> settings =
        opening.database() == null ? Map.of() : Map.of("use:database", opening.database());
    SessionHandle handle =
        service.openSession(version, connection.user(), "", connection.source(), settings);
    connection.sessions.add(handle);
    SparkSession spark = statements.sessionOf(handle);
    spark.conf().set(Endpoint.POOL, connection.user());
    if (opening.zone() != null) {
      spark.conf().set("spark.sql.session.timeZone", opening.zone());
    }
    TOpenSessionResp answer = new TOpenSessionResp(DONE, version);
    answer.setSessionHandle(handle.toTSessionHandle());
    answer.setConfiguration(Map.of());
    return answer;
  }

  private TExecuteStatementResp execute(TExecuteStatementReq request) throws Throwable {
    SessionHandle session = new SessionHandle(request.getSessionHandle());
    OperationHandle handle =
        statements.execute(connection, session, request.getStatement(), !request.isRunAsync());
    TExecuteStatementResp answer = new TExecuteStatementResp(DONE);
    answer.setOperationHandle(handle.toTOperationHandle());
    return answer;
  }

  private TFetchResultsResp fetch(TFetchResultsReq request) throws Throwable {
    OperationHandle handle = new OperationHandle(request.getOperationHandle());
    return statements.fetch(connection, handle, request, () -> hive.FetchResults(request));
  }

  /** What was stopped by the endpoint says why. */
  private TGetOperationStatusResp status(TGetOperationStatusResp answer, Object request) {
    String reason = statements.stopped(new OperationHandle(operationOf(request)));
    if (answer.isSetErrorMessage()) {
      answer.setErrorMessage(Statement.plain(answer.getErrorMessage()));
    }
    if (reason != null && answer.getOperationState() != TOperationState.RUNNING_STATE) {
      answer.setOperationState(TOperationState.ERROR_STATE);
      answer.setErrorMessage(reason);
      answer.setSqlState("57014");
    }
    return answer;
  }

  private void checkHandles(Object request) throws HiveSQLException {
    TSessionHandle session = sessionOf(request);
    TOperationHandle operation = operationOf(request);
    HiveSession made = null;
    if (session != null) {
      made = service.getSessionManager().getSession(new SessionHandle(session));
    } else if (operation != null) {
      OperationHandle handle = new OperationHandle(operation);
      made = service.getSessionManager().getOperationManager().getOperation(handle).getParentSession();
    } else if (!(request instanceof TOpenSessionReq)) {
      throw new Refused("the call names no session and no operation");
    }
    if (made != null && !connection.user().equals(made.getUserName())) {
      throw new Refused("the session or operation is not yours");
    }
  }

  private static TSessionHandle sessionOf(Object request) {
    return (TSessionHandle) get(request, "getSessionHandle");
  }

  private static TOperationHandle operationOf(Object request) {
    return (TOperationHandle) get(request, "getOperationHandle");
  }

  private static Object get(Object request, String name) {
    try {
      return request.getClass().getMethod(name).invoke(request);
    } catch (NoSuchMethodException none) {
      return null;
    } catch (ReflectiveOperationException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** An answer of the call's own kind that says what is wrong. */
  private static Object failed(Method method, TStatus status) throws Throwable {
    // Where in the endpoint it happened is nobody's business.
    status.unsetInfoMessages();
    status.setErrorMessage(Statement.plain(status.getErrorMessage()));
    Class<?> kind = method.getReturnType();
    try {
      Object answer = kind.getConstructor().newInstance();
      kind.getMethod("setStatus", TStatus.class).invoke(answer, status);
      if (answer instanceof TOpenSessionResp opened) {
        opened.setServerProtocolVersion(CLIService.SERVER_VERSION);
      } else if (answer instanceof TGetInfoResp told) {
        told.setInfoValue(TGetInfoValue.stringValue(""));
      }
      return answer;
    } catch (NoSuchMethodException noStatus) {
      throw new TApplicationException(TApplicationException.INTERNAL_ERROR, status.getErrorMessage());
    }
  }
}
