package sluice.sql;

import java.util.Set;

/** The nodes that a plan may have, by the full names of their classes: as parsed, and after analysis. */
final class Plans {
  /** Queries. */
  static final Set<String> QUERIES =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.analysis:
            CurrentNamespace$ ResolvedIdentifier ResolvedInlineTable ResolvedNamespace ResolvedTable UnresolvedHaving
            UnresolvedIdentifier UnresolvedInlineTable UnresolvedNamespace UnresolvedRelation
            UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTable UnresolvedTableOrView
            UnresolvedTableValuedFunction UnresolvedView
          org.apache.spark.sql.catalyst.expressions:
            PipeOperator
          org.apache.spark.sql.catalyst.plans.logical:
            Aggregate CTERelationDef CTERelationRef Distinct Except Expand Filter Generate GlobalLimit Intersect Join
            LateralJoin LimitAll LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range
            RepartitionByExpression Sample Sort SubqueryAlias Union UnionLoop UnionLoopRef Unpivot UnresolvedWith View
            Window WithCTE WithWindowDefinition
          org.apache.spark.sql.execution.datasources:
            LogicalRelation
          org.apache.spark.sql.execution.datasources.v2:
            DataSourceV2Relation
          """);

  /** What else everybody may send: it changes nothing but the session's current database and time zone. */
  static final Set<String> READING =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.analysis:
            UnresolvedFunctionName
          org.apache.spark.sql.catalyst.plans.logical:
            DescribeColumn DescribeFunction DescribeNamespace DescribeRelation SetCatalogAndNamespace ShowColumns
            ShowCreateTable ShowFunctions ShowPartitions ShowTableProperties ShowTables ShowTablesExtended ShowViews
          org.apache.spark.sql.execution.command:
            DescribeColumnCommand DescribeFunctionCommand DescribeQueryCommand DescribeTableCommand ExplainCommand
            SetCommand SetNamespaceCommand ShowCatalogsCommand ShowColumnsCommand ShowCreateTableCommand
            ShowCurrentNamespaceCommand ShowFunctionsCommand ShowNamespacesCommand ShowPartitionsCommand
            ShowTablePropertiesCommand ShowTablesCommand ShowViewsCommand
          """);

  /** What the platform's own user may send besides: it changes tables, views and databases. */
  static final Set<String> CHANGING =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.plans.logical:
            AddColumns AddPartitions AlterViewAs CommentOnTable CreateNamespace CreateTable CreateTableAsSelect
            CreateView DropNamespace DropPartitions DropTable DropView InsertIntoStatement RefreshTable RenameTable
            RepairTable SetTableLocation SetTableProperties SetViewProperties TruncateTable
          org.apache.spark.sql.execution.command:
            AlterTableAddColumnsCommand AlterTableAddPartitionCommand AlterTableDropPartitionCommand
            AlterTableRenameCommand AlterTableSetLocationCommand AlterTableSetPropertiesCommand AlterViewAsCommand
            CreateDataSourceTableAsSelectCommand CreateDataSourceTableCommand CreateViewCommand DropTableCommand
            RefreshTableCommand RepairTableCommand TruncateTableCommand
          org.apache.spark.sql.execution.datasources:
            InsertIntoHadoopFsRelationCommand
          """);

  /** What Spark itself sends while it opens a session: USE. */
  static final Set<String> OPENING =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.analysis:
            ResolvedNamespace UnresolvedNamespace
          org.apache.spark.sql.catalyst.plans.logical:
            SetCatalogAndNamespace
          org.apache.spark.sql.execution.command:
            SetNamespaceCommand
          """);

  private Plans() {}
}
